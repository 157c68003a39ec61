import {dirname, join} from 'node:path'
import {readText} from '../../documents/read.js'

/** Settings file of a project, next to its code. */
export const PROJECT_FILE = 'zael.config.json'

/** A settings file that exists: its entries, each with its line. */
export interface SettingsFile {
  readonly path: string
  readonly entries: ReadonlyMap<string, {readonly value: string; readonly line: number}>
}

/** Far more than six settings need. */
const MAX_BYTES = 64 * 1024

/** The project file in the folder or its nearest ancestor that has one; `undefined` when there is none. */
export async function findUpward(folder: string): Promise<SettingsFile | undefined> {
  for (let at = folder; ; at = dirname(at)) {
    const file = await readSettingsFile(join(at, PROJECT_FILE))
    if (file || at === dirname(at)) return file
  }
}

/** A settings file; `undefined` when it does not exist. */
export async function readSettingsFile(path: string): Promise<SettingsFile | undefined> {
  const hint = 'A settings file is one JSON object of strings, such as {"stack": "local"}; correct it or remove it.'
  const text = await readText({file: path, code: 'config.unreadable', maxBytes: MAX_BYTES, hint})
  if (text === undefined) return undefined
  // Only where there is a file: it loads yaml and zod.
  const {parseSettings} = await import('./settings-schema.js')
  return {path, entries: parseSettings(text, path)}
}

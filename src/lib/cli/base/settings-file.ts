import {dirname, join} from 'node:path'
import {readText} from '../../files/read-document.js'
import type {SettingsFileKind} from './setting-rules.js'

export const PROJECT_FILE = 'zael.config.json'

export interface SettingsFile {
  readonly path: string
  readonly entries: ReadonlyMap<string, {readonly value: string; readonly line: number}>
}

/** Far more than six settings need. */
const MAX_BYTES = 64 * 1024

/** The project file in the folder or its nearest ancestor that has one; `undefined` when there is none. */
export async function findUpward(folder: string, ignored: string[]): Promise<SettingsFile | undefined> {
  for (let at = folder; ; at = dirname(at)) {
    const file = await readSettingsFile(join(at, PROJECT_FILE), 'project', ignored)
    if (file || at === dirname(at)) return file
  }
}

/** A settings file; `undefined` when it does not exist. One of another user is ignored, and its path added to the list. */
export async function readSettingsFile(
  path: string,
  kind: SettingsFileKind,
  ignored: string[],
): Promise<SettingsFile | undefined> {
  const hint = 'A settings file is one JSON object of strings, such as {"stack": "local"}; correct it or remove it.'
  const accept = ({uid}: {readonly uid: number}) => {
    if (isTrustedOwner(uid)) return true
    ignored.push(path)
    return false
  }
  const text = await readText({file: path, code: 'config.unreadable', maxBytes: MAX_BYTES, hint, accept})
  if (text === undefined) return undefined
  // Only where there is a file: it loads yaml and zod.
  const {parseSettings} = await import('./settings-schema.js')
  return {path, entries: parseSettings(text, path, kind)}
}

/** Windows has no user ids. */
function isTrustedOwner(uid: number): boolean {
  return process.getuid === undefined || uid === process.getuid() || uid === 0
}

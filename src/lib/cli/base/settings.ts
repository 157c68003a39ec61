import {dirname, join} from 'node:path'
import {InvalidInput} from '../../core/errors.js'
import {shellWord} from '../../core/text/text.js'
import {readText} from '../../files/read-document.js'
import {
  SETTING_KEYS,
  SETTING_RULES,
  type SettingKey,
  type SettingRule,
  type SettingsFileKind,
  settingProblem,
} from './setting-rules.js'

/** By descending priority. `aws`: a variable that the AWS SDK reads itself. */
export const SETTING_SOURCES = ['flag', 'environment', 'project', 'user', 'aws', 'default'] as const

export type SettingSource = (typeof SETTING_SOURCES)[number]

export interface Setting {
  readonly key: SettingKey
  /** `undefined` when no source sets it. */
  readonly value: string | undefined
  readonly source: SettingSource
  /** The flag, the variable, or the file with its line. */
  readonly from: string | undefined
  /** The first source with an empty value, when no source sets it. */
  readonly empty?: string | undefined
}

export type Settings = Readonly<Record<SettingKey, Setting>>

export interface SettingsSearch {
  /** Typed values by flag name; an empty string counts as not typed. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly env: NodeJS.ProcessEnv
  readonly folder: string
  readonly configDir: string
}

export interface SettingsFiles {
  readonly project: SettingsFile | undefined
  readonly user: SettingsFile | undefined
}

export interface FoundSettings {
  readonly settings: Settings
  readonly files: SettingsFiles
  /** Paths of settings files that another user owns. */
  readonly ignored: readonly string[]
}

/** Sets untyped flags in place, except values that the AWS SDK resolves itself. */
export async function applySettings(
  flags: Record<string, unknown>,
  {isJson, configDir}: {readonly isJson: boolean; readonly configDir: string},
): Promise<FoundSettings> {
  const typed = isJson ? {...flags, output: 'json'} : flags
  const found = await findSettings({flags: typed, env: process.env, folder: process.cwd(), configDir})
  for (const key of SETTING_KEYS) {
    const {value, source} = found.settings[key]
    flags[SETTING_RULES[key].flag] = source === 'aws' ? undefined : value
  }
  return found
}

export async function findSettings(search: SettingsSearch): Promise<FoundSettings> {
  const ignored: string[] = []
  const [project, user] = await Promise.all([
    findUpward(search.folder, ignored),
    readSettingsFile(join(search.configDir, 'config.json'), 'user', ignored),
  ])
  const files = {project, user}
  return {settings: resolve(search.flags, search.env, files), files, ignored}
}

function resolve(flags: SettingsSearch['flags'], env: NodeJS.ProcessEnv, files: SettingsFiles): Settings {
  const settings = Object.fromEntries(
    SETTING_KEYS.map(key => [key, candidates(key, flags, env, files)[0]]),
  ) as unknown as Record<SettingKey, Setting>
  const {stack, endpointUrl} = settings
  // A lower-priority endpoint belongs to another stack: `--stack local` means the stack of this machine.
  if (stack.value === 'local' && rank(endpointUrl) > rank(stack)) settings.endpointUrl = nothing('endpointUrl')
  return settings
}

/** By descending priority; the default is last. */
function candidates(key: SettingKey, flags: SettingsSearch['flags'], env: NodeJS.ProcessEnv, files: SettingsFiles) {
  const rule: SettingRule = SETTING_RULES[key]
  const found: Setting[] = []
  let empty: string | undefined
  const offer = (source: SettingSource, value: unknown, from: string, line?: number) => {
    if (value === '') empty ??= from
    if (typeof value !== 'string' || value === '') return
    // oclif checks typed values, the settings schema checks files, and the transport checks AWS variables.
    if (source === 'environment') checkVariable(key, value, from)
    found.push({key, value, source, from: line === undefined ? from : `${from}, line ${line}`})
  }
  offer('flag', flags[rule.flag], `--${rule.flag}`)
  offer('environment', env[rule.variable], rule.variable)
  for (const source of ['project', 'user'] as const) {
    const entry = files[source]?.entries.get(key)
    if (entry) offer(source, entry.value, files[source]?.path ?? '', entry.line)
  }
  for (const name of rule.aws ?? []) offer('aws', env[name], name)
  return [...found, {...nothing(key), value: rule.fallback, empty}]
}

const nothing = (key: SettingKey): Setting => ({key, value: undefined, source: 'default', from: undefined})

const rank = ({source}: Setting): number => SETTING_SOURCES.indexOf(source)

function checkVariable(key: SettingKey, value: string, variable: string): void {
  const problem = settingProblem(key, value)
  if (problem === undefined) return
  throw new InvalidInput('config.variable', `${variable}: ${problem}`, {hint: `Change or unset ${variable}.`})
}

export interface TypedSetting {
  readonly key: SettingKey
  readonly flag: string
  /** Flag and value, quoted for a shell. */
  readonly words: readonly [string, string]
}

export function typedSettings(settings: Settings): TypedSetting[] {
  return SETTING_KEYS.flatMap(key => {
    const {source, value} = settings[key]
    const {flag} = SETTING_RULES[key]
    return key !== 'output' && source === 'flag' ? [{key, flag, words: [`--${flag}`, shellWord(value ?? '')]}] : []
  })
}

/** Appended to a suggested command, so that it targets the same stack; starts with a space unless empty. */
export function typedFlags(settings: Settings): string {
  return typedFlagWords(settings)
    .map(word => ` ${word}`)
    .join('')
}

export function typedFlagWords(settings: Settings): string[] {
  return typedSettings(settings).flatMap(({words}) => words)
}

export const PROJECT_FILE = 'zael.config.json'

export interface SettingsFile {
  readonly path: string
  readonly entries: ReadonlyMap<string, {readonly value: string; readonly line: number}>
}

const MAX_BYTES = 64 * 1024

async function findUpward(folder: string, ignored: string[]): Promise<SettingsFile | undefined> {
  for (let at = folder; ; at = dirname(at)) {
    const file = await readSettingsFile(join(at, PROJECT_FILE), 'project', ignored)
    if (file || at === dirname(at)) return file
  }
}

/** `undefined`: missing, or owned by another user, which adds its path to `ignored`. */
async function readSettingsFile(
  path: string,
  kind: SettingsFileKind,
  ignored: string[],
): Promise<SettingsFile | undefined> {
  const hint = 'A settings file is one JSON object of strings, such as {"stack": "local"}. Correct or remove it.'
  const accept = ({uid}: {readonly uid: number}) => {
    if (isTrustedOwner(uid)) return true
    ignored.push(path)
    return false
  }
  const text = await readText({file: path, code: 'config.unreadable', maxBytes: MAX_BYTES, hint, accept})
  if (text === undefined) return undefined
  // Imported only when there is a file: it loads yaml.
  const {parseSettings} = await import('./settings-schema.js')
  return {path, entries: parseSettings(text, path, kind)}
}

/** Windows has no user ids. */
function isTrustedOwner(uid: number): boolean {
  return process.getuid === undefined || uid === process.getuid() || uid === 0
}

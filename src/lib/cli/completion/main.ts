import {readFile} from 'node:fs/promises'
import {homedir} from 'node:os'
import {join} from 'node:path'
import {encodedStart, shownName} from '../../core/encoded-name.js'
import {openStack, type StackContext} from '../base/context.js'
import {findSettings} from '../base/settings.js'

/** One candidate per line, with its description after a tab. Runs without oclif. */
export async function answerShell(words: readonly string[], manifestFile: URL): Promise<void> {
  const {commands} = JSON.parse(await readFile(manifestFile, 'utf8')) as {commands: CommandSet}
  // PowerShell cannot pass an empty word.
  const typed = words.map(word => (word === '""' ? '' : word))
  const candidates = await resolved(commands, typed.length === 0 ? [''] : typed)
  for (const {value, description} of candidates) {
    process.stdout.write(description === undefined ? `${value}\n` : `${value}\t${description.split('\n')[0]}\n`)
  }
}

async function resolved(commands: CommandSet, words: readonly string[]): Promise<readonly CompletionCandidate[]> {
  const completion = complete(commands, words)
  if (completion.kind === 'words') return completion.candidates
  const {of, prefix, typed} = completion
  const current = (words.at(-1) ?? '').slice(prefix.length)
  const names = await lookUpNames({of, typed, begin: current}, configDir())
  return names.map(name => ({value: prefix + name}))
}

/** Clients may store any name. Control characters could add lines or alter the terminal; a leading dash is a flag. */
export function isTypable(name: string): boolean {
  return /^[^-\p{C}\p{Zl}\p{Zp}][^\p{C}\p{Zl}\p{Zp}]*$/u.test(name)
}

/** Same folder as oclif's `configDir`; oclif is not loaded here. */
function configDir(): string {
  return join(process.env.XDG_CONFIG_HOME || join(homedir(), '.config'), 'zael')
}

/** The user waits at the prompt. */
const LOOKUP_TIMEOUT_MS = 1_500
const MOST_NAMES = 200

interface NameSearch {
  readonly of: NameKind
  readonly typed: TypedFlags
  readonly begin: string
}

/** Empty when the lookup fails or takes too long. */
async function lookUpNames(search: NameSearch, configDir: string): Promise<string[]> {
  const late = new Promise<string[]>(resolve => setTimeout(resolve, LOOKUP_TIMEOUT_MS, []).unref())
  return Promise.race([read(search, configDir).catch(() => []), late])
}

async function read({of, typed, begin}: NameSearch, configDir: string): Promise<string[]> {
  const {settings} = await findSettings({flags: typed, env: process.env, folder: process.cwd(), configDir})
  await using stack = await openStack({
    stack: settings.stack.value ?? '',
    namespace: settings.namespace.value ?? '',
    region: settings.region.value,
    profile: settings.profile.value,
    'endpoint-url': settings.endpointUrl.value,
  })
  const names = await namesIn(stack, of, begin)
  const offered = names.flatMap(name => [shownName(name), name].find(each => each.startsWith(begin)) ?? [])
  return offered.filter(isTypable).slice(0, MOST_NAMES)
}

async function namesIn(stack: StackContext, of: NameKind, begin: string): Promise<string[]> {
  if (of === 'namespace') return (await stack.repository.namespaces.list()).map(({name}) => name)
  // By id: deleted namespaces may share a name.
  if (of === 'deleted-namespace') return (await stack.repository.namespaces.orphans()).map(({id}) => id)
  const namespace = await stack.namespace()
  if (of === 'entity') {
    const prefixes = begin === '' ? [''] : [begin, encodedStart(begin)]
    const search = (prefix: string) => namespace.entities.search({prefix}, {limit: MOST_NAMES})
    const found = await Promise.all(prefixes.map(search))
    return found.flatMap(({records}) => records.map(({entity}) => entity))
  }
  const resources = await namespace.configs.resources()
  return resources.flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
}

export interface CommandShape {
  readonly summary?: string
  readonly hidden?: boolean
  readonly args: Readonly<
    Record<string, {readonly name: string; readonly options?: readonly string[]; readonly multiple?: boolean}>
  >
  readonly flags: Readonly<Record<string, FlagShape>>
}

export interface FlagShape {
  readonly name: string
  readonly type: 'boolean' | 'option'
  readonly char?: string
  readonly description?: string
  readonly options?: readonly string[]
  readonly multiple?: boolean
  readonly hidden?: boolean
}

/** By id, such as `limits:set`. */
export type CommandSet = Readonly<Record<string, CommandShape>>

export type NameKind = 'namespace' | 'deleted-namespace' | 'entity' | 'resource'

export interface CompletionCandidate {
  readonly value: string
  readonly description?: string
}

export type Completion =
  | {readonly kind: 'words'; readonly candidates: readonly CompletionCandidate[]}
  | {readonly kind: 'names'; readonly of: NameKind; readonly prefix: string; readonly typed: TypedFlags}

export type TypedFlags = Readonly<Record<string, string>>

const FLAG_NAMES: Readonly<Record<string, NameKind>> = {
  namespace: 'namespace',
  entity: 'entity',
  parent: 'entity',
  resource: 'resource',
}

/** Completes the last word after `zael`, which may be empty. */
export function complete(commands: CommandSet, words: readonly string[]): Completion {
  const before = words.slice(0, -1)
  const current = words.at(-1) ?? ''
  if (before[0] === 'help' && !current.startsWith('-')) {
    return wordsOnly(children(commands, before.slice(1), current))
  }
  const {path, rest} = splitPath(commands, before)
  const command = commands[path.join(':')]
  const typed = typedFlags(command, rest)
  const pending = command && pendingFlag(command, before.at(-1))
  if (command && pending) return valuesOf(pending, current, '', typed.flags)
  const inline = /^--([^=]+)=(.*)$/.exec(current)
  if (command && inline) {
    const flag = command.flags[inline[1] as string]
    return flag?.type === 'option' ? valuesOf(flag, inline[2] as string, `--${flag.name}=`, typed.flags) : wordsOnly([])
  }
  if (current.startsWith('-')) return wordsOnly(command ? flagCandidates(command, current, rest) : [])
  const next = rest.length === 0 ? children(commands, path, current) : []
  if (!command || next.length > 0) return wordsOnly(next)
  return argumentOf(path, command, typed.positionals, current, typed.flags)
}

const wordsOnly = (candidates: readonly CompletionCandidate[]): Completion => ({kind: 'words', candidates})

function splitPath(commands: CommandSet, words: readonly string[]): {path: string[]; rest: readonly string[]} {
  const ids = Object.keys(commands)
  const path: string[] = []
  for (const word of words) {
    const longer = [...path, word].join(':')
    if (!ids.some(id => id === longer || id.startsWith(`${longer}:`))) break
    path.push(word)
  }
  return {path, rest: words.slice(path.length)}
}

function children(commands: CommandSet, path: readonly string[], current: string): CompletionCandidate[] {
  const found = new Map<string, string | undefined>()
  for (const [id, {summary, hidden}] of Object.entries(commands)) {
    const parts = id.split(':')
    const isBelow = !hidden && parts.length > path.length && path.every((word, index) => parts[index] === word)
    const next = parts[path.length] as string
    if (!isBelow || !next.startsWith(current)) continue
    const isCommand = parts.length === path.length + 1
    if (isCommand || !found.has(next)) found.set(next, isCommand ? summary : undefined)
  }
  return [...found].sort().map(([value, description]) => candidate(value, description))
}

function flagCandidates({flags}: CommandShape, current: string, rest: readonly string[]): CompletionCandidate[] {
  return Object.values(flags)
    .filter(({name, hidden, multiple}) => !hidden && (multiple || !rest.some(word => isFlag(word, name))))
    .filter(({name}) => `--${name}`.startsWith(current))
    .map(({name, description}) => candidate(`--${name}`, description))
}

const isFlag = (word: string, name: string): boolean => word === `--${name}` || word.startsWith(`--${name}=`)

function pendingFlag(command: CommandShape, last: string | undefined): FlagShape | undefined {
  const flag = last === undefined ? undefined : flagCalled(command, last)
  return flag?.type === 'option' ? flag : undefined
}

function flagCalled({flags}: CommandShape, word: string): FlagShape | undefined {
  if (word.startsWith('--')) return flags[word.slice(2)]
  return /^-.$/.test(word) ? Object.values(flags).find(({char}) => char === word[1]) : undefined
}

function valuesOf(flag: FlagShape, current: string, lead: string, typed: TypedFlags): Completion {
  const kind = FLAG_NAMES[flag.name]
  if (kind) return {kind: 'names', of: kind, prefix: lead, typed}
  const options = flag.name === 'stack' ? ['local'] : (flag.options ?? [])
  return wordsOnly(options.filter(option => option.startsWith(current)).map(option => candidate(lead + option)))
}

function typedFlags(command: CommandShape | undefined, rest: readonly string[]) {
  const flags: Record<string, string> = {}
  const positionals: string[] = []
  for (let index = 0; index < rest.length; index++) {
    const word = rest[index] as string
    const inline = /^--([^=]+)=(.*)$/.exec(word)
    const flag = command && flagCalled(command, word)
    if (inline) flags[inline[1] as string] = inline[2] as string
    else if (flag?.type === 'option') flags[flag.name] = rest[++index] ?? ''
    else if (!word.startsWith('-')) positionals.push(word)
  }
  return {flags, positionals}
}

function argumentOf(
  path: readonly string[],
  {args}: CommandShape,
  positionals: readonly string[],
  current: string,
  typed: TypedFlags,
): Completion {
  const all = Object.values(args)
  const last = all.at(-1)
  const arg = all[positionals.length] ?? (last?.multiple ? last : undefined)
  if (!arg) return wordsOnly([])
  if (arg.options)
    return wordsOnly(arg.options.filter(option => option.startsWith(current)).map(value => candidate(value)))
  const kind = nameKindOf(path, arg.name)
  return kind ? {kind: 'names', of: kind, prefix: '', typed} : wordsOnly([])
}

function nameKindOf([topic, command = '']: readonly string[], arg: string): NameKind | undefined {
  if (topic === 'namespace') return ['purge', 'recover'].includes(command) ? 'deleted-namespace' : 'namespace'
  if (arg === 'entity' || arg === 'resource') return arg
  return topic === 'entity' && arg === 'id' ? 'entity' : undefined
}

const candidate = (value: string, description?: string): CompletionCandidate =>
  description === undefined ? {value} : {value, description}

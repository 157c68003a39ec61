import {readFile} from 'node:fs/promises'
import {homedir} from 'node:os'
import {join} from 'node:path'
import {openStack, type StackContext} from '../base/context.js'
import {findSettings} from '../base/settings.js'
import {type CommandSet, type CompletionCandidate, complete, type NameKind, type TypedFlags} from './candidates.js'

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
  return names.filter(name => isTypable(name) && name.startsWith(begin)).slice(0, MOST_NAMES)
}

async function namesIn(stack: StackContext, of: NameKind, begin: string): Promise<string[]> {
  if (of === 'namespace') return (await stack.repository.namespaces.list()).map(({name}) => name)
  // By id: deleted namespaces may share a name.
  if (of === 'deleted-namespace') return (await stack.repository.namespaces.orphans()).map(({id}) => id)
  const namespace = await stack.namespace()
  if (of === 'entity') {
    const {records} = await namespace.entities.search({prefix: begin}, {limit: MOST_NAMES})
    return records.map(({entity}) => entity)
  }
  const resources = await namespace.configs.resources()
  return resources.flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
}

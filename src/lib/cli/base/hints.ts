import type {Config} from '@oclif/core/config'
import {changedError, ZaelError} from '../../core/errors.js'
import {formatAmount} from '../../core/limits/amount-text.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {shellWord} from '../../core/text/text.js'
import type {ConfigScope} from '../../schema/config-record.js'
import type {StackContext} from './context.js'
import {scopeArguments, topUpCommand} from './scope.js'
import {SETTING_RULES, type SettingKey} from './setting-rules.js'
import {type Setting, type Settings, typedSettings} from './settings.js'

export async function withNearestNames(error: unknown, context: StackContext): Promise<unknown> {
  if (!(error instanceof ZaelError)) return error
  const {namespace, entity, resource} = error.details
  if (error.code === 'namespace.missing') {
    const deleted = await deletedNamespace(context, String(namespace))
    if (deleted) return deleted
    const meant = nearestNames(String(namespace), await namesOrNone(() => namespaceNames(context)))
    const create = `To create a new one: zael namespace create ${words(namespace)}`
    return withHint(error, meant.length === 0 ? commandHint(error) : `${didYouMean(meant)} ${create}`, meant)
  }
  if (error.code === 'entity.missing') {
    return suggesting(error, String(entity), await namesOrNone(() => entityIds(context, String(entity))))
  }
  if (error.code === 'limits.missing' && resource !== undefined) {
    const [hint] = entity === undefined ? [] : await namesOrNone(() => parentHints(context, `${entity}`, `${resource}`))
    if (hint !== undefined) return withHint(error, hint, [])
    const meant = entity === undefined ? [] : await namesOrNone(() => otherIds(context, `${entity}`))
    if (meant.length > 0) return withHint(error, `${didYouMean(meant)} Otherwise: ${commandHint(error)}`, meant)
    return suggesting(error, String(resource), await namesOrNone(() => resourceNames(context)))
  }
  if (error.code === 'table.missing') {
    const {stack} = context
    const hint = stack === 'local' ? 'zael local up' : `zael list, or zael deploy --stack ${stack}`
    const missing = new ZaelError('notFound', 'stack.missing', `Stack "${stack}" not found.`, {hint, cause: error})
    return suggesting(missing, stack, await namesOrNone(() => tableNames(context)))
  }
  return error
}

function suggesting(error: ZaelError, typed: string, names: readonly string[]): ZaelError {
  const meant = nearestNames(typed, names)
  return withHint(error, didYouMean(meant) ?? commandHint(error), meant)
}

function withHint(error: ZaelError, hint: string | undefined, nearest?: readonly string[]): ZaelError {
  return changedError(error, {hint, details: {...error.details, ...(nearest && {nearest})}})
}

/** For an entity without limits whose requests would charge a parent that has some. */
async function parentHints(context: StackContext, entity: string, resource: string): Promise<string[]> {
  const [{parentOnlyLimits}, {formatLimit}, {withUnits}] = await Promise.all([
    import('../../insight/lookup/family-limits.js'),
    import('../../core/limits/limit-text.js'),
    import('../../repository/limits/units.js'),
  ])
  const namespace = await context.namespace()
  const [shared] = await parentOnlyLimits(namespace, entity, [{resource}])
  if (!shared) return []
  const {limits} = await namespace.configs.resolve({entity: shared.parent, resource})
  const texts = withUnits(limits, await namespace.configs.units()).map(formatLimit)
  const set = `zael limits set --resource ${shellWord(resource)} ${words(...texts)}`
  return [
    `Its parent ${shared.parent} has ${texts.join(' ')}, but ${entity} needs its own limits. Requests of ` +
      `${entity} are then recorded for ${entity} and charged to both. For all entities: ${set}; only for ${entity}: ` +
      set.replace('--resource', () => `--entity ${shellWord(entity)} --resource`),
  ]
}

async function namespaceNames({repository}: StackContext): Promise<string[]> {
  return (await repository.namespaces.list()).map(({name}) => name)
}

async function deletedNamespace({repository}: StackContext, name: string): Promise<ZaelError | undefined> {
  const orphans = await repository.namespaces.orphans().catch(() => [])
  const found = orphans.findLast(each => each.name === name && each.status === 'deleted')
  if (!found) return undefined
  const {id, deletedAt} = found
  const when = deletedAt === undefined ? '' : ` at ${deletedAt}`
  const message = `Namespace ${JSON.stringify(name)} was deleted${when}.`
  return new ZaelError('notFound', 'namespace.missing', message, {details: {namespace: name, deletedId: id}})
}

async function entityIds(context: StackContext, typed: string): Promise<string[]> {
  return (await context.namespace()).entities.similar(typed)
}

/** Similar ids, if nothing is known of the typed one. */
async function otherIds(context: StackContext, typed: string): Promise<string[]> {
  const {unknownEntity} = await import('../../insight/lookup/known-names.js')
  return (await unknownEntity(await context.namespace(), typed))?.nearest ?? []
}

async function resourceNames(context: StackContext): Promise<string[]> {
  const configured = await (await context.namespace()).configs.resources()
  return configured.flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
}

/** First page only; may include tables that are not stacks. */
async function tableNames({table}: StackContext): Promise<string[]> {
  return (await table.transport.send('ListTables', {})).TableNames ?? []
}

/** Empty when the caller lacks permission to list names. */
async function namesOrNone(names: () => Promise<string[]>): Promise<string[]> {
  try {
    return await names()
  } catch {
    return []
  }
}

const PLACE_ERRORS = new Set([
  'aws.region',
  'aws.credentials',
  'aws.certificate',
  'aws.proxy',
  'aws.unavailable',
  'dynamo.denied',
  'dynamo.unavailable',
])

/** Names the stack, region and profile in use: often one of them is wrong. */
export function withWhere(
  error: unknown,
  {stack, region, profile, endpointUrl}: Pick<Settings, 'stack' | 'region' | 'profile' | 'endpointUrl'>,
  env: NodeJS.ProcessEnv,
): unknown {
  if (!(error instanceof ZaelError) || !PLACE_ERRORS.has(error.code)) return error
  const usedProfile = profile.value ?? env.AWS_PROFILE
  const parts = {
    stack: stack.value,
    region: region.value ?? (env.AWS_REGION || undefined),
    profile: usedProfile,
    endpoint: endpointUrl.value,
  }
  const named = Object.entries(parts).flatMap(([name, value]) => (value === undefined ? [] : [`${name} "${value}"`]))
  return changedError(error, {
    message: `${error.message} (${named.join(', ')})`,
    hint: isLoginError(error.message) ? loginHint(usedProfile, env) : withProxy(withEmptyRegion(error, region), env),
    details: {...error.details, ...parts},
  })
}

/** An unset variable of the shell, as in `--region "$REGION"`, is a usual cause. */
export function withEmptyRegion<Failure>(error: Failure, {empty}: Setting): Failure | ZaelError {
  if (!(error instanceof ZaelError) || error.code !== 'aws.region' || empty === undefined) return error
  return withHint(error, `${empty} is empty. ${error.hint}`)
}

const isLoginError = (message: string): boolean =>
  /SSO|token (has|is) expired|security token .* expired|ExpiredToken/i.test(message)

function loginHint(profile: string | undefined, env: NodeJS.ProcessEnv): string {
  if (profile === undefined && env.AWS_ACCESS_KEY_ID && env.AWS_SESSION_TOKEN)
    return 'The session in AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN has expired. Get a new one, or unset both and use --profile.'
  return `Log in again: aws sso login${profile === undefined ? '' : ` --profile ${shellWord(profile)}`}`
}

function withProxy({code, hint}: ZaelError, env: NodeJS.ProcessEnv): string | undefined {
  const name = ['HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy'].find(each => env[each])
  if (name === undefined || !/\.unavailable$/.test(code)) return hint
  return `${hint ?? ''} ${name} is set, but zael ignores proxies. Allow direct connections, or use a VPC endpoint with --endpoint-url.`.trim()
}

const AWS_ACCESS_ERRORS = new Set(['aws.region', 'aws.credentials', 'dynamo.denied', 'stack.missing'])

const UNAVAILABLE_ERRORS = new Set(['aws.unavailable', 'dynamo.unavailable'])

/** When a local stack is meant but not named, or was stopped and is still named by the shell's variables. */
export async function withLocalHint(
  error: unknown,
  {stack, endpointUrl}: Pick<Settings, 'stack' | 'endpointUrl'>,
  env: NodeJS.ProcessEnv,
): Promise<unknown> {
  if (!(error instanceof ZaelError)) return error
  const {code} = error
  const isUnnamed = AWS_ACCESS_ERRORS.has(code) && stack.source === 'default'
  const left = UNAVAILABLE_ERRORS.has(code) ? await leftVariables(endpointUrl.value, env) : []
  if (!isUnnamed && left.length === 0) return error
  const {readSupervisor} = await import('./local-health.js')
  const isRunning = (await readSupervisor()) !== null
  if (left.length > 0 && !isRunning) {
    const start = 'AWS_ENDPOINT_URL_DYNAMODB names a local stack that is not running. To start it: zael local up.'
    return withHint(error, `${start} To use AWS instead: unset ${left.join(' ')}`)
  }
  if (!isUnnamed || !isRunning) return error
  const hint = `You did not name a stack, so zael used "${stack.value}". For the local stack, add --stack local, or run: eval "$(zael local env)"`
  return withHint(error, hint)
}

/** Variables of `zael local env`, if the endpoint in use is one of them. */
async function leftVariables(endpoint: string | undefined, env: NodeJS.ProcessEnv): Promise<string[]> {
  const {localVariablesIn} = await import('../../local/shell-env.js')
  const names = localVariablesIn(env)
  const isUsed = names.includes('AWS_ENDPOINT_URL_DYNAMODB') && endpoint === env.AWS_ENDPOINT_URL_DYNAMODB
  return isUsed && names.includes('AWS_ACCESS_KEY_ID') ? names : []
}

type Details = Readonly<Record<string, unknown>>

const words = (...names: unknown[]): string => names.map(name => shellWord(String(name))).join(' ')

const listOf = (names: unknown): string[] => (Array.isArray(names) ? names.map(String) : [])

/** By error code. The library's own hints name no commands. */
const HINTS: Readonly<Record<string, (details: Details) => string | undefined>> = {
  'request.too-large': ({entity, resource, limit, requested, unit}) => {
    const amount = unit === undefined ? requested : formatAmount(Number(requested), String(unit))
    return `Request less, or raise the limit. To see how: zael why ${words(entity, resource, `${limit}=${amount}`)}`
  },
  'resource.disabled': ({entity, resource, level}) =>
    level === 'resource'
      ? `Enable it: zael resource enable ${words(resource)}`
      : `Enable it: zael entity enable ${words(entity)}${level === 'entity' ? ` --resource ${words(resource)}` : ''}`,
  'limit.unknown': ({entity, resource, names, known}) => {
    if (resource === undefined) return undefined
    const [name] = listOf(names)
    const meant = name === undefined ? undefined : didYouMean(nearestNames(name, listOf(known)))
    return [...(meant === undefined ? [] : [meant]), `See zael limits resolve ${words(entity, resource)}`].join(' ')
  },
  'limits.missing': ({entity, resource, others, scope}) => {
    if (Array.isArray(others) && others.length > 0) return undefined
    if (entity !== undefined)
      return `Set a limit: zael limits set --entity ${words(entity)} --resource ${words(resource)} rpm=100/min`
    const of = scope as ConfigScope
    if (of.level === 'entity' && of.resource !== DEFAULT_RESOURCE)
      return `To see the limits in force: zael limits resolve ${words(of.entity, of.resource)}`
    return 'Run `zael limits list` to see all limits.'
  },
  'manifest.locked': ({seconds}) =>
    'Nothing was changed. Wait for that run: --wait 60s. ' +
    `If it has crashed, its lock expires in ${seconds} s; to remove it now: zael limits unlock`,
  'manifest.lock-lost': () => 'See remaining changes: zael limits plan',
  'boost.missing': () => 'zael limits boosts',
  'until.same': ({scope, limit, boosted}) =>
    boosted
      ? `To end its boost: zael limits unset --boost ${words(limit)} ${scopeArguments(scope as ConfigScope)}`
      : undefined,
  'until.quota': ({scope, limit, more, unit}) => {
    if (Number(more) <= 0) return 'Set it without --for or --until, and set it back later.'
    const amount = formatAmount(Number(more), unit === undefined ? undefined : String(unit))
    const command = topUpCommand(scope as ConfigScope, [`${limit}=${amount}`])
    return `To add the difference at once, until the reset: ${command}`
  },
  'namespace.missing': ({namespace, deletedId}) =>
    deletedId !== undefined
      ? `Recover it with its data: \`zael namespace recover ${words(deletedId)}\`. A new namespace of that name would prevent this.`
      : `See \`zael namespace list\` and \`zael namespace orphans\`. To create it: zael namespace create ${words(namespace)}`,
  'namespace.ambiguous': () => 'Use the id instead of the name. `zael namespace orphans` lists the ids.',
  'namespace.state': ({id, name, remedy}) => {
    if (remedy === 'delete') return `Delete it first with \`zael namespace delete ${words(name)}\`.`
    if (remedy === 'purge') return `Use \`zael namespace purge ${words(id)}\` to delete its data too.`
    return remedy === 'finish purge' ? `Finish with \`zael namespace purge ${words(id)}\`.` : undefined
  },
  'namespace.name-taken': ({id, name}) =>
    `Free the name with \`zael namespace delete ${words(name)}\`, then recover ${words(id)}.`,
  'namespace.changed': ({id}) => `Check it with \`zael namespace show ${words(id)}\`, then try again.`,
  'entity.missing': () => 'zael entity list',
  'entity.deleted': ({entity}) => `Lift the block: zael entity enable ${words(entity)}`,
  'entity.exists': ({entity}) => `Change it with \`zael entity update ${words(entity)}\`.`,
  'entity.version': ({entity}) => `Check it with \`zael entity show ${words(entity)}\`, then try again.`,
  'entity.parent-missing': ({parent}) => `Create it first with \`zael entity create ${words(parent)}\`.`,
  'entity.has-children': () => 'Delete the children first, or move them to another parent with `zael entity update`.',
  'schema.needs-migration': () => 'Migrate it with `zael migrate run`. To see the steps first: zael migrate plan',
  'schema.migrating': () =>
    'Wait for it to finish; `zael migrate status` shows the step. If it was interrupted, resume with `zael migrate run`.',
  'manifest.changed': () => 'Check the differences with `zael limits plan`, then apply again.',
}

function commandHint({code, details, hint}: ZaelError): string | undefined {
  return HINTS[code]?.(details) ?? hint
}

export function withCommandHint(error: ZaelError): ZaelError {
  const hint = commandHint(error)
  return hint === undefined || hint === error.hint || 'nearest' in error.details ? error : withHint(error, hint)
}

/** Flag names by command id, such as `limits set`; `undefined` for an unknown command. */
export type FlagsOfCommand = (id: string) => ReadonlySet<string> | undefined

/** A command in a hint: between backticks, or up to the end of its sentence or line. */
const COMMAND = /`zael ([^`]+)`|\bzael ((?:'[^']*'|(?!\. [A-Z]|, (?:or|then) zael|; |\.$)[^`\n])+)/g

const AWS_COMMAND = /\baws (?=(?:cloudformation|dynamodb|lambda|logs|s3) [a-z])/g

const SHORT: Partial<Record<SettingKey, string>> = {stack: 's', namespace: 'n'}

export function flagsOfCommands(config: Pick<Config, 'findCommand'>): FlagsOfCommand {
  return id => {
    const command = config.findCommand(id.replaceAll(' ', ':'))
    return command && new Set(Object.keys(command.flags))
  }
}

/** Makes commands in a hint target the same stack: zael gets the typed flags, aws all that it cannot find itself. */
export function withTypedFlags(hint: string, settings: Settings, flagsOf: FlagsOfCommand): string {
  const place = awsFlags(settings)
  return withOwnFlags(hint, settings, flagsOf).replace(AWS_COMMAND, command => command + place)
}

/** Without them, a command could reach a table of the same name in another region or account. */
function awsFlags(settings: Settings): string {
  const keys = ['region', 'profile', 'endpointUrl'] as const
  return keys
    .map(key => {
      const {source, value = ''} = settings[key]
      return source === 'aws' || source === 'default' ? '' : `--${SETTING_RULES[key].flag} ${shellWord(value)} `
    })
    .join('')
}

function withOwnFlags(hint: string, settings: Settings, flagsOf: FlagsOfCommand): string {
  const typed = typedSettings(settings)
  if (typed.length === 0) return hint
  return hint.replace(COMMAND, (mention, quoted?: string, bare?: string) => {
    const command = quoted ?? bare ?? ''
    const flags = flagsIn(command, flagsOf)
    const words = command.split(' ')
    const added = typed.filter(
      ({key, flag}) => flags?.has(flag) && !words.includes(`--${flag}`) && !words.includes(`-${SHORT[key]}`),
    )
    return mention.replace(command, () => [command, ...added.flatMap(each => each.words)].join(' '))
  })
}

function flagsIn(command: string, flagsOf: FlagsOfCommand): ReadonlySet<string> | undefined {
  const words = command.split(' ')
  if (words.includes('--help')) return undefined
  return flagsOf(words.slice(0, 2).join(' ')) ?? flagsOf(words[0] ?? '')
}

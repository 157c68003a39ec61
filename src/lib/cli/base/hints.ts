import {ZaelError} from '../../core/errors.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {shellWord} from '../../core/text/text.js'
import {commandHint} from './command-hints.js'
import type {StackContext} from './context.js'
import type {Setting, Settings} from './settings.js'

export async function withNearestNames(error: unknown, context: StackContext): Promise<unknown> {
  if (!(error instanceof ZaelError)) return error
  const {namespace, entity, resource} = error.details
  if (error.code === 'namespace.missing') {
    return suggesting(error, String(namespace), await namesOrNone(() => namespaceNames(context)))
  }
  if (error.code === 'entity.missing') {
    return suggesting(error, String(entity), await namesOrNone(() => entityIds(context, String(entity))))
  }
  if (error.code === 'limits.missing' && resource !== undefined) {
    return suggesting(error, String(resource), await namesOrNone(() => resourceNames(context)))
  }
  if (error.code === 'table.missing') {
    const {stack} = context
    const hint = stack === 'local' ? 'zael local up' : `zael list, or zael deploy --stack ${stack}`
    const missing = new ZaelError('notFound', 'stack.missing', `there is no stack "${stack}"`, {hint, cause: error})
    return suggesting(missing, stack, await namesOrNone(() => tableNames(context)))
  }
  return error
}

function suggesting(error: ZaelError, typed: string, names: readonly string[]): ZaelError {
  const meant = nearestNames(typed, names)
  const {kind, code, message, cause} = error
  const details = {...error.details, nearest: meant}
  const hint = didYouMean(meant) ?? commandHint(error)
  return new ZaelError(kind, code, message, {...(hint === undefined ? {} : {hint}), details, cause})
}

async function namespaceNames({repository}: StackContext): Promise<string[]> {
  return (await repository.namespaces.list()).map(({name}) => name)
}

async function entityIds(context: StackContext, typed: string): Promise<string[]> {
  return (await context.namespace()).entities.similar(typed)
}

async function resourceNames(context: StackContext): Promise<string[]> {
  const configured = await (await context.namespace()).configs.resources()
  return configured.flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
}

/** First page only; may include tables that are not stacks. */
async function tableNames({table}: StackContext): Promise<string[]> {
  return (await table.transport.send('ListTables', {})).TableNames ?? []
}

/** No suggestion when the caller may not list names. */
async function namesOrNone(names: () => Promise<string[]>): Promise<string[]> {
  try {
    return await names()
  } catch {
    return []
  }
}

type Environment = Readonly<Record<string, string | undefined>>

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
  env: Environment,
): unknown {
  if (!(error instanceof ZaelError) || !PLACE_ERRORS.has(error.code)) return error
  const usedProfile = profile.value ?? env.AWS_PROFILE
  const parts = {
    stack: stack.value,
    region: region.value ?? env.AWS_REGION,
    profile: usedProfile,
    endpoint: endpointUrl.value,
  }
  const named = Object.entries(parts).flatMap(([name, value]) => (value === undefined ? [] : [`${name} "${value}"`]))
  const {kind, code, message, details, cause} = error
  const hint = isLoginError(message) ? loginHint(usedProfile, env) : withProxy(error, env)
  return new ZaelError(kind, code, `${message} (${named.join(', ')})`, {
    ...(hint !== undefined && {hint}),
    details: {...details, ...parts},
    cause,
  })
}

const isLoginError = (message: string): boolean =>
  /SSO|token (has|is) expired|security token .* expired|ExpiredToken/i.test(message)

function loginHint(profile: string | undefined, env: Environment): string {
  if (profile === undefined && env.AWS_ACCESS_KEY_ID && env.AWS_SESSION_TOKEN)
    return 'The session in AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN is over: get a new one, or unset both and choose --profile.'
  return `Log in again: aws sso login${profile === undefined ? '' : ` --profile ${shellWord(profile)}`}`
}

function withProxy({code, hint}: ZaelError, env: Environment): string | undefined {
  const name = ['HTTPS_PROXY', 'https_proxy', 'ALL_PROXY', 'all_proxy'].find(each => env[each])
  if (name === undefined || !/\.unavailable$/.test(code)) return hint
  return `${hint ?? ''} ${name} is set, but zael connects directly: allow that, or use a VPC endpoint with --endpoint-url.`.trim()
}

const AWS_ACCESS_ERRORS = new Set(['aws.region', 'aws.credentials', 'dynamo.denied', 'stack.missing'])

export async function withLocalHint(error: unknown, stack: Setting): Promise<unknown> {
  if (!(error instanceof ZaelError) || !AWS_ACCESS_ERRORS.has(error.code) || stack.source !== 'default') return error
  const {readSupervisor} = await import('./local-health.js')
  if (!(await readSupervisor())) return error
  const {kind, code, message, details, cause} = error
  const hint = `No stack is named, so "${stack.value}" was used. For the local stack add --stack local, or run: eval "$(zael local env)"`
  return new ZaelError(kind, code, message, {hint, details, cause})
}

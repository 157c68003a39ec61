import {
  type ContextEntry,
  type EvaluationResult,
  GetRoleCommand,
  paginateSimulatePrincipalPolicy,
} from '@aws-sdk/client-iam'
import {ZaelError} from '../../core/errors.js'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import type {Aws, CallerIdentity} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import type {HealthParts, StackPart, UnknownPart} from '../health/parts.js'
import {cloudFormationGrants, commandGrants, type StackPlace} from '../permissions/permissions.js'
import type {GrantConditions, PolicyGrant} from '../permissions/policy.js'
import {likelyBucketName} from '../stack/option-rules.js'
import {type Check, failedCheck, passedCheck, warningCheck} from './machine-checks.js'

const NAMES: Readonly<Record<Purpose, string>> = {
  look: 'may read',
  operate: 'may operate',
  deploy: 'may deploy',
  role: 'role may deploy',
}

// A caller without any permission to deploy lacks more than a hundred actions.
const MAX_LISTED = 12

const CONDITIONAL_FIX =
  'Policies for one namespace have such conditions. Try a command with --namespace, or request the policy STACK-read.'

export async function permissionChecks(
  aws: Aws,
  caller: CallerIdentity,
  place: {readonly region: string; readonly stack: string},
  {cloudFormation, unknown}: Pick<HealthParts, 'cloudFormation'> & {readonly unknown: readonly UnknownPart[]},
): Promise<Check[]> {
  const [, partition = 'aws', , , account = ''] = caller.arn.split(':')
  if (caller.arn.endsWith(':root')) {
    const message = 'the root user of the account has all permissions'
    return [warningCheck('account', 'permissions', message, 'Use a role instead.')]
  }
  try {
    const deployed = cloudFormation === null ? NOT_DEPLOYED : deployedFacts(cloudFormation)
    const needed = neededActions({partition, account, ...place}, deployed)
    const own = needed.filter(({purpose}) => purpose !== 'role')
    const ofRole = needed.filter(({purpose}) => purpose === 'role')
    const checks = simulationChecks(own, await simulate(aws, await policySource(aws, caller.arn), own))
    if (deployed.role === null) return checks
    return [...checks, ...(await roleChecks(aws, deployed.role, ofRole))]
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    return readingChecks(error, unknown)
  }
}

/** Only missing read permissions fail: not every user operates or deploys. Conditional actions stay unknown. */
export function simulationChecks(needed: readonly NeededActions[], {refused, conditional}: Simulation): Check[] {
  const purposes = [...new Set(needed.map(({purpose}) => purpose))]
  const reported = new Set<string>()
  return purposes.map(purpose => {
    const wanted = new Set(needed.flatMap(each => (each.purpose === purpose ? each.actions : [])))
    const actions = [...wanted].filter(action => !reported.has(action))
    for (const action of actions) reported.add(action)
    const missing = actions.filter(action => refused.has(action))
    const open = actions.filter(action => conditional.has(action) && !refused.has(action))
    const name = NAMES[purpose]
    if (missing.length + open.length === 0)
      return passedCheck('account', name, `all ${actions.length} actions, by simulation`)
    const conditions = [...new Set(open.flatMap(action => conditional.get(action) ?? []))]
    const message = [
      ...(missing.length === 0 ? [] : [`refused by simulation: ${listed(missing)}`]),
      ...(open.length === 0 ? [] : [`unknown, depends on ${conditions.join(', ')}: ${listed(open)}`]),
    ].join('; ')
    if (missing.length === 0) return warningCheck('account', name, message, CONDITIONAL_FIX)
    const isDeployment = purpose === 'deploy' || purpose === 'role'
    const fix = isDeployment
      ? 'Write policies with all actions that a deployment needs: zael deploy --export-policy DIR'
      : 'Request these actions if you need them. The policies STACK-read and STACK-full include them.'
    return purpose === 'look' ? failedCheck('account', name, message, fix) : warningCheck('account', name, message, fix)
  })
}

async function roleChecks(aws: Aws, role: string, needed: readonly NeededActions[]): Promise<Check[]> {
  try {
    return simulationChecks(needed, await simulate(aws, role, needed))
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    const fix = `To check its permissions, request iam:SimulatePrincipalPolicy on ${role}.`
    return [warningCheck('account', NAMES.role, `could not be simulated: ${error.message}`, fix)]
  }
}

function listed(actions: readonly string[]): string {
  const rest = actions.length - MAX_LISTED
  return rest <= 0 ? actions.join(', ') : `${actions.slice(0, MAX_LISTED).join(', ')} and ${rest} more`
}

export function deployedFacts(stack: Pick<StackPart, 'parameters' | 'outputs' | 'role'>): DeployedFacts {
  const parameters = Object.fromEntries(stack.parameters.chosen.map(({name, value}) => [name, value]))
  return {parameters, archiveBucket: stack.outputs.AuditArchiveBucketName ?? null, role: stack.role}
}

function readingChecks(refusal: ZaelError, unreadable: readonly UnknownPart[]): Check[] {
  const denied = unreadable.filter(({code}) => /\.denied$/.test(code))
  const message = `could not be simulated, so only reads were checked: ${refusal.message}`
  const advice = 'To check write permissions, request iam:SimulatePrincipalPolicy on yourself.'
  const why = warningCheck('account', 'permissions', message, advice)
  if (denied.length === 0) return [why, passedCheck('account', NAMES.look, 'all reads succeeded')]
  return [why, ...denied.map(({part, reason, fix}) => failedCheck('account', NAMES.look, `${part}: ${reason}`, fix))]
}

/** Policies are attached to the role, not to its session; the session's ARN lacks the path of the role. */
async function policySource(aws: Aws, arn: string): Promise<string> {
  const session = /^(arn:[^:]+):sts::(\d+):assumed-role\/([^/]+)\//.exec(arn)
  if (!session) return arn
  const [, prefix, account, role = ''] = session
  try {
    const {Role} = await (await aws.iam()).send(new GetRoleCommand({RoleName: role}))
    return Role?.Arn ?? arn
  } catch {
    return `${prefix}:iam::${account}:role/${role}`
  }
}

const SIMULATIONS_AT_ONCE = 4

export interface Simulation {
  readonly refused: ReadonlySet<string>
  /** Action → condition keys that only a real call has, such as item keys. */
  readonly conditional: ReadonlyMap<string, readonly string[]>
}

async function simulate(aws: Aws, source: string, needed: readonly NeededActions[]): Promise<Simulation> {
  const requests = new Map<string, {ActionNames: string[]; ResourceArns: string[]; ContextEntries?: ContextEntry[]}>()
  for (const {actions, resources, conditions} of needed) {
    const key = JSON.stringify([resources, conditions])
    const names = new Set([...(requests.get(key)?.ActionNames ?? []), ...actions])
    const context = conditions && {ContextEntries: contextOf(conditions)}
    requests.set(key, {ActionNames: [...names], ResourceArns: [...resources], ...context})
  }
  const refused = new Set<string>()
  const conditional = new Map<string, readonly string[]>()
  await callAws('simulate your permissions', async () => {
    const client = await aws.iam()
    await forEachConcurrently(requests.values(), SIMULATIONS_AT_ONCE, async request => {
      const input = {PolicySourceArn: source, ...request}
      for await (const {EvaluationResults = []} of paginateSimulatePrincipalPolicy({client}, input)) {
        for (const result of EvaluationResults) {
          const {EvalActionName: action = '', EvalDecision: decision} = result
          if (decision === 'allowed') continue
          const conditions = missingConditions(action, result)
          if (conditions.length === 0) refused.add(action)
          else conditional.set(action, [...new Set([...(conditional.get(action) ?? []), ...conditions])])
        }
      }
    })
  })
  return {refused, conditional}
}

function contextOf(conditions: GrantConditions): ContextEntry[] {
  return Object.values(conditions).flatMap(keys =>
    Object.entries(keys).map(([ContextKeyName, value]) => ({
      ContextKeyName,
      ContextKeyType: 'string' as const,
      ContextKeyValues: [value],
    })),
  )
}

/** Only keys that a call of this service can have. */
function missingConditions(action: string, result: EvaluationResult): string[] {
  const {MissingContextValues: overall = [], ResourceSpecificResults: each = []} = result
  const refusals = each.filter(({EvalResourceDecision}) => EvalResourceDecision !== 'allowed')
  const missing = [...overall, ...refusals.flatMap(({MissingContextValues = []}) => MissingContextValues)]
  const [service = ''] = action.split(':')
  return missing.filter(key => key.startsWith('aws:') || key.startsWith(`${service}:`))
}

/** `role`: for the service role of CloudFormation. */
export type Purpose = 'look' | 'operate' | 'deploy' | 'role'

export interface NeededActions extends PolicyGrant {
  readonly purpose: Purpose
}

export interface DeployedFacts {
  readonly parameters: Readonly<Record<string, string>>
  /** `null`: not created yet. CloudFormation generates the name. */
  readonly archiveBucket: string | null
  readonly role: string | null
}

export const NOT_DEPLOYED: DeployedFacts = {parameters: {}, archiveBucket: null, role: null}

/** Actions of the commands, and those CloudFormation calls with the permissions of the user or its service role. */
export function neededActions(
  place: StackPlace,
  {parameters, archiveBucket, role}: DeployedFacts = NOT_DEPLOYED,
): NeededActions[] {
  const stack = {
    place,
    parameters,
    archiveBucket: archiveBucket ?? likelyBucketName(place.stack),
    cloudFormationRole: role,
    templateBucket: null,
  }
  const since = (purpose: Purpose, grants: readonly PolicyGrant[]) => grants.map(grant => ({purpose, ...grant}))
  const direct = (['look', 'operate', 'deploy'] as const).flatMap(each => since(each, commandGrants(each, stack)))
  const indirect = cloudFormationGrants(stack).flatMap(({grants}) => grants)
  return [...direct, ...since(role === null ? 'deploy' : 'role', indirect)]
}

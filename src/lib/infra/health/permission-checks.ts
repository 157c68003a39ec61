import {GetRoleCommand} from '@aws-sdk/client-iam'
import {ZaelError} from '../../core/errors.js'
import type {CallerIdentity} from '../aws/caller-identity.js'
import type {Aws} from '../aws/clients.js'
import {loadPermissionFacts} from '../permissions/facts.js'
import {type Check, failedCheck, passedCheck, warningCheck} from './check.js'
import {type DeployedFacts, type NeededActions, NOT_DEPLOYED, neededActions, type Purpose} from './needed-actions.js'
import type {HealthParts, StackPart, UnknownPart} from './parts.js'
import {type Simulation, simulate} from './permission-simulation.js'

const NAMES: Readonly<Record<Purpose, string>> = {
  look: 'may look',
  operate: 'may operate',
  deploy: 'may deploy',
  role: 'role may deploy',
}

// A caller without any permission to deploy lacks more than a hundred actions.
const MAX_LISTED = 12

const CONDITIONAL_FIX =
  'Policies for one namespace have such conditions: try a command with --namespace, or ask for the policy STACK-read.'

/** Checks permissions by IAM's policy simulation, or, where that is not allowed, by what could be read. */
export async function permissionChecks(
  aws: Aws,
  caller: CallerIdentity,
  place: {readonly region: string; readonly stack: string},
  {cloudFormation, unknown}: Pick<HealthParts, 'cloudFormation'> & {readonly unknown: readonly UnknownPart[]},
): Promise<Check[]> {
  const [, partition = 'aws', , , account = ''] = caller.arn.split(':')
  if (caller.arn.endsWith(':root')) {
    return [
      warningCheck('account', 'permissions', 'the root user of the account may do everything', 'Use a role instead.'),
    ]
  }
  try {
    const deployed = cloudFormation === null ? NOT_DEPLOYED : deployedFacts(cloudFormation)
    const needed = neededActions(await loadPermissionFacts(), {partition, account, ...place}, deployed)
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

/**
 * One check per purpose. Not every user has to operate or deploy, so only missing read permissions are a failure. Actions
 * that depend on conditions of the call are neither granted nor refused.
 */
export function simulationChecks(needed: readonly NeededActions[], {refused, conditional}: Simulation): Check[] {
  const purposes = [...new Set(needed.map(({purpose}) => purpose))]
  const told = new Set<string>()
  return purposes.map(purpose => {
    // An action that several purposes need is reported once.
    const wanted = new Set(needed.flatMap(each => (each.purpose === purpose ? each.actions : [])))
    const actions = [...wanted].filter(action => !told.has(action))
    for (const action of actions) told.add(action)
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
      ? 'To get policies with all actions that deploying needs: zael deploy --export-policy DIR'
      : 'Ask for these actions if you need them: the policies STACK-read and STACK-full have them.'
    return purpose === 'look' ? failedCheck('account', name, message, fix) : warningCheck('account', name, message, fix)
  })
}

/** The permissions of the service role; not everybody may simulate those of others. */
async function roleChecks(aws: Aws, role: string, needed: readonly NeededActions[]): Promise<Check[]> {
  try {
    return simulationChecks(needed, await simulate(aws, role, needed))
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    const fix = `Ask for iam:SimulatePrincipalPolicy on ${role} to have its permissions checked too.`
    return [warningCheck('account', NAMES.role, `could not be simulated: ${error.message}`, fix)]
  }
}

function listed(actions: readonly string[]): string {
  const rest = actions.length - MAX_LISTED
  return rest <= 0 ? actions.join(', ') : `${actions.slice(0, MAX_LISTED).join(', ')} and ${rest} more`
}

export function deployedFacts({
  parameters,
  outputs,
  role,
}: Pick<StackPart, 'parameters' | 'outputs' | 'role'>): DeployedFacts {
  return {
    parameters: Object.fromEntries(parameters.chosen.map(({name, value}) => [name, value])),
    archiveBucket: outputs.AuditArchiveBucketName ?? null,
    role,
  }
}

/** Without simulation only read permissions can be checked: by the reads that were made. */
function readingChecks(refusal: ZaelError, unreadable: readonly UnknownPart[]): Check[] {
  const denied = unreadable.filter(({code}) => /\.denied$/.test(code))
  const why = warningCheck(
    'account',
    'permissions',
    `could not be simulated, so only reads were tried: ${refusal.message}`,
    'Ask for iam:SimulatePrincipalPolicy on yourself to have write permissions checked too.',
  )
  if (denied.length === 0) return [why, passedCheck('account', NAMES.look, 'everything that was read')]
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

import {GetRoleCommand, paginateSimulatePrincipalPolicy} from '@aws-sdk/client-iam'
import {forEachConcurrently} from '../dynamo/concurrency.js'
import {ZaelError} from '../errors.js'
import type {Aws} from './aws-clients.js'
import {attempt} from './aws-errors.js'
import type {CallerIdentity} from './caller-identity.js'
import {type Check, fail, ok, warn} from './check.js'
import type {UnknownPart} from './health-parts.js'
import {type NeededActions, neededActions, type Purpose} from './needed-actions.js'

const SIMULATIONS_AT_ONCE = 4

const NAMES: Readonly<Record<Purpose, string>> = {look: 'may look', operate: 'may operate', deploy: 'may deploy'}

/** What is allowed, by asking IAM; where IAM does not tell, by what could be read. */
export async function permissionChecks(
  aws: Aws,
  caller: CallerIdentity,
  place: {readonly region: string; readonly stack: string},
  unreadable: readonly UnknownPart[],
): Promise<Check[]> {
  const [, partition = 'aws', , , account = ''] = caller.arn.split(':')
  if (caller.arn.endsWith(':root')) {
    return [warn('account', 'permissions', 'the root user of the account may do everything', 'Use a role instead.')]
  }
  try {
    const needed = neededActions({partition, account, ...place})
    return simulationChecks(needed, await simulate(aws, await policySource(aws, caller.arn), needed))
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    return readingChecks(error, unreadable)
  }
}

/** Which of the needed actions IAM would refuse; one question for everything that concerns the same thing. */
async function simulate(aws: Aws, source: string, needed: readonly NeededActions[]): Promise<Set<string>> {
  const questions = new Map<string, {ActionNames: string[]; ResourceArns: string[]}>()
  for (const {actions, resources} of needed) {
    const key = resources.join(' ')
    const asked = questions.get(key)?.ActionNames ?? []
    questions.set(key, {ActionNames: [...asked, ...actions], ResourceArns: [...resources]})
  }
  async function* each() {
    yield* questions.values()
  }
  const refused = new Set<string>()
  await attempt('simulate your permissions', async () => {
    const client = await aws.iam()
    await forEachConcurrently(each(), SIMULATIONS_AT_ONCE, async question => {
      const request = {PolicySourceArn: source, ...question}
      for await (const {EvaluationResults = []} of paginateSimulatePrincipalPolicy({client}, request)) {
        for (const {EvalActionName: action = '', EvalDecision: decision} of EvaluationResults) {
          if (decision !== 'allowed') refused.add(action)
        }
      }
    })
  })
  return refused
}

/** One line per purpose. Not everybody has to operate or deploy, so only blindness is a failure. */
export function simulationChecks(needed: readonly NeededActions[], refused: ReadonlySet<string>): Check[] {
  const purposes = [...new Set(needed.map(({purpose}) => purpose))]
  return purposes.map(purpose => {
    const actions = needed.flatMap(each => (each.purpose === purpose ? each.actions : []))
    const missing = actions.filter(action => refused.has(action))
    const name = NAMES[purpose]
    if (missing.length === 0) return ok('account', name, `all ${actions.length} actions, by simulation`)
    const message = `refused by simulation: ${missing.join(', ')}`
    const fix = 'Ask for these actions if you need them; docs/deploying.md lists them all.'
    return purpose === 'look' ? fail('account', name, message, fix) : warn('account', name, message, fix)
  })
}

/** Without simulation only reading can be tried; writing is not tried out. */
function readingChecks(refusal: ZaelError, unreadable: readonly UnknownPart[]): Check[] {
  const denied = unreadable.filter(({code}) => /\.denied$/.test(code))
  const why = warn(
    'account',
    'permissions',
    `could not be simulated, so only reading was tried: ${refusal.message}`,
    'Ask for iam:SimulatePrincipalPolicy on yourself to have writing checked too.',
  )
  if (denied.length === 0) return [why, ok('account', NAMES.look, 'everything that was read')]
  return [why, ...denied.map(({part, reason, fix}) => fail('account', NAMES.look, `${part}: ${reason}`, fix))]
}

/** Policies hang on the role, not on its session; the session's ARN lacks the path of the role. */
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

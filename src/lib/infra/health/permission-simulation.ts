import {type ContextEntry, type EvaluationResult, paginateSimulatePrincipalPolicy} from '@aws-sdk/client-iam'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import type {GrantConditions} from '../permissions/grant.js'
import type {NeededActions} from './needed-actions.js'

const SIMULATIONS_AT_ONCE = 4

export interface Simulation {
  readonly refused: ReadonlySet<string>
  /** Actions that depend on context that only a real call has, such as item keys; with the names of these condition keys. */
  readonly conditional: ReadonlyMap<string, readonly string[]>
}

interface SimulationRequest {
  readonly ActionNames: string[]
  readonly ResourceArns: string[]
  readonly ContextEntries?: ContextEntry[]
}

export async function simulate(aws: Aws, source: string, needed: readonly NeededActions[]): Promise<Simulation> {
  const requests = new Map<string, SimulationRequest>()
  for (const {actions, resources, conditions} of needed) {
    const key = JSON.stringify([resources, conditions])
    const names = new Set([...(requests.get(key)?.ActionNames ?? []), ...actions])
    const context = conditions && {ContextEntries: contextOf(conditions)}
    requests.set(key, {ActionNames: [...names], ResourceArns: [...resources], ...context})
  }
  async function* each() {
    yield* requests.values()
  }
  const refused = new Set<string>()
  const conditional = new Map<string, readonly string[]>()
  await callAws('simulate your permissions', async () => {
    const client = await aws.iam()
    await forEachConcurrently(each(), SIMULATIONS_AT_ONCE, async request => {
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

/** What a real call would have: the values that the conditions ask for. */
function contextOf(conditions: GrantConditions): ContextEntry[] {
  return Object.values(conditions).flatMap(keys =>
    Object.entries(keys).map(([ContextKeyName, value]) => ({
      ContextKeyName,
      ContextKeyType: 'string' as const,
      ContextKeyValues: [value],
    })),
  )
}

/** The missing condition keys, overall or per resource; only those that a call of this service can have. */
function missingConditions(action: string, result: EvaluationResult): string[] {
  const {MissingContextValues: overall = [], ResourceSpecificResults: each = []} = result
  const refusals = each.filter(({EvalResourceDecision}) => EvalResourceDecision !== 'allowed')
  const missing = [...overall, ...refusals.flatMap(({MissingContextValues = []}) => MissingContextValues)]
  const [service = ''] = action.split(':')
  return missing.filter(key => key.startsWith('aws:') || key.startsWith(`${service}:`))
}

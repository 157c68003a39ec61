import {type EvaluationResult, paginateSimulatePrincipalPolicy} from '@aws-sdk/client-iam'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import type {NeededActions} from './needed-actions.js'

const SIMULATIONS_AT_ONCE = 4

/** What IAM said of the actions that it did not simply allow. */
export interface Simulation {
  readonly refused: ReadonlySet<string>
  /** Actions that are allowed or not by what only a real call has, such as the keys of items: names of those conditions. */
  readonly conditional: ReadonlyMap<string, readonly string[]>
}

/** Asks IAM about all needed actions; one question for everything that concerns the same thing. */
export async function simulate(aws: Aws, source: string, needed: readonly NeededActions[]): Promise<Simulation> {
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
  const conditional = new Map<string, readonly string[]>()
  await callAws('simulate your permissions', async () => {
    const client = await aws.iam()
    await forEachConcurrently(each(), SIMULATIONS_AT_ONCE, async question => {
      const request = {PolicySourceArn: source, ...question}
      for await (const {EvaluationResults = []} of paginateSimulatePrincipalPolicy({client}, request)) {
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

/** Told for all resources together, or for each of those that were named; only what a call of that service can have. */
function missingConditions(action: string, result: EvaluationResult): string[] {
  const {MissingContextValues: overall = [], ResourceSpecificResults: each = []} = result
  const refusals = each.filter(({EvalResourceDecision}) => EvalResourceDecision !== 'allowed')
  const missing = [...overall, ...refusals.flatMap(({MissingContextValues = []}) => MissingContextValues)]
  const [service = ''] = action.split(':')
  return missing.filter(key => key.startsWith('aws:') || key.startsWith(`${service}:`))
}

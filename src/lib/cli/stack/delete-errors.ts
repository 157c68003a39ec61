import {ZaelError} from '../../core/errors.js'
import type {DeletedPart} from '../../infra/delete/delete.js'
import type {DeletionPlan} from '../../infra/delete/plan.js'
import {outOfSight} from './out-of-sight.js'

/** A deletion that has begun. */
export interface BegunDeletion {
  readonly plan: DeletionPlan
  /** What is gone so far. */
  readonly gone: ReadonlySet<DeletedPart>
  /** Flags that lead to the same stack. */
  readonly flags: string
}

/** What Ctrl-C leaves: services finish by themselves what they have begun. */
export function interruptedDeletion(begun: BegunDeletion): ZaelError {
  const {plan, flags} = begun
  const [next] = leftOf(begun)
  const goesOn = {
    stack: `CloudFormation goes on deleting stack "${plan.name}" by itself.`,
    table: `DynamoDB goes on deleting the table "${plan.name}" if it had begun.`,
    archive: `the archive ${plan.archive} is not empty yet.`,
  }
  const said = `Interrupted: ${next === undefined ? 'everything is deleted.' : goesOn[next]}`
  return new ZaelError('interrupted', 'delete.interrupted', said, {
    hint: `Look how it is doing with: zael status${flags}; do the rest with: ${sameCommand(begun)}`,
    details: detailsOf(begun),
  })
}

/** A failure after something is gone says what is gone, what is left, and how to go on; any other is as it was. */
export function unfinishedDeletion(error: unknown, begun: BegunDeletion): unknown {
  const {plan, gone, flags} = begun
  const stack = plan.name
  const hint = `Look how it is doing with: zael status${flags}; then do the rest with: ${sameCommand(begun)}`
  const failure = outOfSight(error, {code: 'delete.out-of-sight', goesOn: `deleting stack "${stack}"`, hint, stack})
  if (failure !== error || !(error instanceof ZaelError) || error.kind === 'interrupted' || gone.size === 0)
    return failure
  const done = [...gone].map(part => nameOf(part, plan)).join(' and ')
  const left = leftOf(begun).map(part => nameOf(part, plan))
  const but = left.length === 0 ? '' : `, but not ${left.join(', ')}`
  const said = `${done.replace(/^\w/, first => first.toUpperCase())} ${gone.size === 1 ? 'is' : 'are'} deleted${but}: `
  return new ZaelError(error.kind, 'delete.unfinished', `${said}${error.message}`, {
    hint: `${error.hint ?? 'Mend that.'}\nThen go on with: ${sameCommand(begun)}`,
    details: {...detailsOf(begun), cause: error.code},
    cause: error,
  })
}

/** Parts that were to go and are still there, in the order in which they go. */
function leftOf({plan, gone}: BegunDeletion): DeletedPart[] {
  const wanted: [DeletedPart, boolean][] = [
    ['stack', plan.stack !== undefined],
    ['table', plan.deleteTable && plan.table !== undefined],
    ['archive', plan.emptyArchive && plan.archive !== undefined],
  ]
  return wanted.flatMap(([part, isWanted]) => (isWanted && !gone.has(part) ? part : []))
}

function detailsOf(begun: BegunDeletion) {
  return {stack: begun.plan.name, done: [...begun.gone], left: leftOf(begun)}
}

function nameOf(part: DeletedPart, {name, archive}: DeletionPlan): string {
  return {stack: `stack "${name}"`, table: `the table ${name}`, archive: `the archive ${archive}`}[part]
}

function sameCommand({plan, flags}: BegunDeletion): string {
  const wanted = [plan.deleteTable && ' --delete-table', plan.emptyArchive && ' --empty-archive']
  return `zael delete${flags}${wanted.filter(Boolean).join('')}`
}

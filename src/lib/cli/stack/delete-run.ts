import {ZaelError} from '../../core/errors.js'
import {formatList} from '../../core/text/text.js'
import {Aborted} from '../../dynamo/errors.js'
import {sleepMs} from '../../dynamo/retry.js'
import type {Aws} from '../../infra/aws/clients.js'
import type {Deleted, DeletedPart, DeletionWatcher} from '../../infra/deploy/delete.js'
import type {DeletionPlan} from '../../infra/deploy/delete-plan.js'
import type {Table} from '../../repository/table/table.js'
import type {Interruption} from '../output/interrupt.js'
import {eventLines, outOfSight} from './deploy-presenter.js'

/** Ctrl-C stops waiting; a deletion that has begun continues. */
export async function deleteWithEvents(
  aws: Aws | undefined,
  table: Table,
  plan: DeletionPlan,
  {flags, interruption, logToStderr}: DeletionMode,
): Promise<Deleted> {
  const {deletePlanned} = await import('../../infra/deploy/delete.js')
  const gone = new Set<DeletedPart>()
  const started = {plan, gone, flags}
  const watcher: DeletionWatcher = {
    onEvent: event => {
      for (const line of eventLines(event)) logToStderr(line)
    },
    onStep: what => logToStderr(`  ${what}`),
    onStart: () => interruption.failWith(() => interruptedDeletion(started)),
    onGone: part => gone.add(part),
  }
  const waiting = {sleep: sleepMs, signal: interruption.signal}
  return deletePlanned(aws, table, plan, watcher, waiting).catch(error => {
    throw error instanceof Aborted ? error : unfinishedDeletion(error, started)
  })
}

interface DeletionMode {
  /** Flags that select the same stack, for suggested commands. */
  readonly flags: string
  readonly interruption: Interruption
  readonly logToStderr: (line: string) => void
}

export interface StartedDeletion {
  readonly plan: DeletionPlan
  readonly gone: ReadonlySet<DeletedPart>
  readonly flags: string
}

export function interruptedDeletion(started: StartedDeletion): ZaelError {
  const {plan, flags} = started
  const [next] = leftOf(started)
  const remaining = {
    stack: `CloudFormation continues to delete stack "${plan.name}".`,
    table: `DynamoDB may continue to delete the table "${plan.name}".`,
    archive: `the audit archive ${plan.archive} is not empty yet.`,
  }
  const message = `Interrupted: ${next === undefined ? 'everything is deleted.' : remaining[next]}`
  return new ZaelError('interrupted', 'delete.interrupted', message, {
    hint: `Check its state: zael status${flags}. Then delete the rest: ${sameCommand(started)}`,
    details: detailsOf(started),
  })
}

/** Once a part is deleted, adds the deleted and remaining parts and the command that continues. */
export function unfinishedDeletion(error: unknown, started: StartedDeletion): unknown {
  const {plan, gone, flags} = started
  const stack = plan.name
  const hint = `Check its state: zael status${flags}. Then delete the rest: ${sameCommand(started)}`
  const failure = outOfSight(error, {
    code: 'delete.out-of-sight',
    continuing: `to delete stack "${stack}"`,
    hint,
    stack,
  })
  if (failure !== error || !(error instanceof ZaelError) || error.kind === 'interrupted' || gone.size === 0)
    return failure
  const done = formatList([...gone].map(part => nameOf(part, plan)))
  const left = leftOf(started).map(part => nameOf(part, plan))
  const but = left.length === 0 ? '' : `, but not ${left.join(', ')}`
  const state = `${done.replace(/^\w/, first => first.toUpperCase())} ${gone.size === 1 ? 'is' : 'are'} deleted${but}`
  return new ZaelError(error.kind, 'delete.unfinished', `${state}: ${error.message}`, {
    hint: `${error.hint ?? 'Fix the cause.'}\nThen continue: ${sameCommand(started)}`,
    details: {...detailsOf(started), cause: error.code},
    cause: error,
  })
}

function leftOf({plan, gone}: StartedDeletion): DeletedPart[] {
  const wanted: [DeletedPart, boolean][] = [
    ['stack', plan.stack !== undefined],
    ['table', plan.deleteTable && plan.table !== undefined],
    ['archive', plan.emptyArchive && plan.archive !== undefined],
  ]
  return wanted.flatMap(([part, isWanted]) => (isWanted && !gone.has(part) ? part : []))
}

function detailsOf(started: StartedDeletion) {
  return {stack: started.plan.name, done: [...started.gone], left: leftOf(started)}
}

function nameOf(part: DeletedPart, {name, archive}: DeletionPlan): string {
  return {stack: `stack "${name}"`, table: `the table ${name}`, archive: `the audit archive ${archive}`}[part]
}

function sameCommand({plan, flags}: StartedDeletion): string {
  const {cloudFormationRole: role} = plan
  const asRole = role !== undefined && ` --cloudformation-role ${role}`
  const wanted = [plan.deleteTable && ' --delete-table', plan.emptyArchive && ' --empty-archive', asRole]
  return `zael delete${flags}${wanted.filter(Boolean).join('')}`
}

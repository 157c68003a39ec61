import {sleepMs} from '../../dynamo/retry.js'
import type {Aws} from '../../infra/aws/clients.js'
import type {Deleted, DeletedPart, DeletionWatcher} from '../../infra/delete/delete.js'
import type {DeletionPlan} from '../../infra/delete/plan.js'
import type {Table} from '../../repository/table/table.js'
import {interruptible} from '../output/interrupt.js'
import {interruptedDeletion, unfinishedDeletion} from './delete-errors.js'
import {eventLines} from './deploy-presenter.js'

/** Carries a deletion out with its events on stderr; Ctrl-C stops the watching, not CloudFormation. */
export async function deleteWithEvents(
  aws: Aws | undefined,
  table: Table,
  plan: DeletionPlan,
  {flags, logToStderr}: {readonly flags: string; readonly logToStderr: (text: string) => void},
): Promise<Deleted> {
  const {deletePlanned} = await import('../../infra/delete/delete.js')
  const gone = new Set<DeletedPart>()
  const begun = {plan, gone, flags}
  const watcher: DeletionWatcher = {
    onEvent: event => logToStderr(eventLines(event).join('\n')),
    onStep: what => logToStderr(`  ${what}`),
    onGone: part => gone.add(part),
  }
  return interruptible(
    signal => deletePlanned(aws, table, plan, watcher, {sleep: sleepMs, signal}),
    () => interruptedDeletion(begun),
  ).catch(error => {
    throw unfinishedDeletion(error, begun)
  })
}

import {sleepMs} from '../dynamo/retry.js'
import {ZaelError} from '../errors.js'
import type {Aws} from '../infra/aws-clients.js'
import type {Deleted} from '../infra/delete.js'
import type {DeletionPlan} from '../infra/delete-plan.js'
import type {Table} from '../repository/table.js'
import {eventLines} from './deploy-presenter.js'
import {interruptible} from './interrupt.js'

/** Carries a deletion out with its events on stderr; Ctrl-C stops the watching, not CloudFormation. */
export async function deleteWithEvents(
  aws: Aws | undefined,
  table: Table,
  plan: DeletionPlan,
  {flags, logToStderr}: {readonly flags: string; readonly logToStderr: (text: string) => void},
): Promise<Deleted> {
  const {deletePlanned} = await import('../infra/delete.js')
  const watcher = {
    onEvent: (event: Parameters<typeof eventLines>[0]) => logToStderr(eventLines(event).join('\n')),
    onStep: (what: string) => logToStderr(`  ${what}`),
  }
  return interruptible(
    signal => deletePlanned(aws, table, plan, watcher, {sleep: sleepMs, signal}),
    () => interrupted(plan, flags),
  )
}

function interrupted({name, stack}: DeletionPlan, flags: string): ZaelError {
  const said = stack
    ? `Interrupted: CloudFormation goes on deleting stack "${name}" by itself.`
    : `Interrupted: DynamoDB goes on deleting the table "${name}" if it had begun.`
  return new ZaelError('interrupted', 'delete.interrupted', said, {
    hint: `Look how it is doing with: zael status${flags}; run the same command again to do the rest.`,
    details: {stack: name},
  })
}

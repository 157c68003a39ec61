import {DeleteStackCommand} from '@aws-sdk/client-cloudformation'
import {DeleteBucketCommand, DeleteObjectsCommand, ListObjectVersionsCommand} from '@aws-sdk/client-s3'
import {ZaelError} from '../../core/errors.js'
import {Aborted, TableMissing} from '../../dynamo/errors.js'
import {type Table, untilAborted} from '../../repository/table/table.js'
import {type Aws, awsUntilAborted} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, sendChange, type WaitOptions} from '../aws/send-change.js'
import {firstFailure, followEvents, latestEventId, type StackEvent} from '../stack/events.js'
import {type DeletionPlan, readTable} from './delete-plan.js'

export type DeletedPart = 'stack' | 'table' | 'archive'

export interface DeletionWatcher {
  readonly onEvent: (event: StackEvent) => void
  readonly onStep: (what: string) => void
  /** Called when a request that deletes something is sent; may be called again. */
  readonly onStart: () => void
  readonly onGone: (part: DeletedPart) => void
}

export interface Deleted {
  readonly stackDeleted: boolean
  readonly tableDeleted: boolean
  readonly tableLeft: boolean
  /** Object versions deleted with the bucket; `null`: the archive was kept. */
  readonly archivedObjectsDeleted: number | null
}

/** Deletes the stack first, which stops all writes of the aggregator. */
export async function deletePlanned(
  services: Aws | undefined,
  givenTable: Table,
  plan: DeletionPlan,
  watcher: DeletionWatcher,
  wait: WaitOptions,
): Promise<Deleted> {
  const aws = services && awsUntilAborted(services, wait.signal)
  const table = wait.signal ? untilAborted(givenTable, wait.signal) : givenTable
  if (services && plan.stack) {
    await deleteStack(services, {...plan.stack, role: plan.cloudFormationRole}, watcher, wait)
    watcher.onGone('stack')
  }
  const tableDeleted = plan.deleteTable && plan.table !== undefined
  if (tableDeleted) {
    watcher.onStep(`Deleting the table "${plan.name}"`)
    if (wait.signal?.aborted) throw new Aborted('Deleting the table', false, wait.signal.reason)
    watcher.onStart()
    await deleteTable(table, wait)
    watcher.onGone('table')
  }
  let archivedObjectsDeleted: number | null = null
  if (aws && plan.emptyArchive && plan.archive !== undefined) {
    watcher.onStep(`Emptying the archive ${plan.archive}`)
    if (wait.signal?.aborted) throw new Aborted('Emptying the archive', false, wait.signal.reason)
    watcher.onStart()
    archivedObjectsDeleted = await deleteArchive(aws, plan.archive, wait)
    watcher.onGone('archive')
  }
  const tableLeft = (await readTable(table)) !== undefined
  return {stackDeleted: plan.stack !== undefined, tableDeleted, tableLeft, archivedObjectsDeleted}
}

export async function deleteStack(
  services: Aws,
  {name, id, role}: {readonly name: string; readonly id: string; readonly role?: string | null | undefined},
  {onEvent, onStart}: Pick<DeletionWatcher, 'onEvent' | 'onStart'>,
  wait: WaitOptions,
): Promise<void> {
  const aws = awsUntilAborted(services, wait.signal)
  const since = await latestEventId(aws, id)
  const command = new DeleteStackCommand({StackName: id, ...(role ? {RoleARN: role} : {})})
  const sending = {what: 'Deleting the stack', signal: wait.signal, onSent: onStart}
  await callAws(`delete stack "${name}"`, async () => {
    const client = await services.cloudFormation()
    return sendChange(command, options => client.send(command, options), sending)
  })
  const events: StackEvent[] = []
  for await (const event of followEvents(aws, id, since, wait)) {
    events.push(event)
    onEvent(event)
  }
  const end = events.at(-1)
  if (end?.status !== 'DELETE_COMPLETE') throw deleteFailed(name, events)
}

export async function deleteTable({transport, name: TableName}: Table, wait: WaitOptions): Promise<void> {
  try {
    await transport.send('DeleteTable', {TableName})
    await poll(wait, async () => {
      await transport.send('DescribeTable', {TableName})
      return undefined
    })
  } catch (error) {
    if (!(error instanceof TableMissing)) throw error
  }
}

export async function unprotectTable({transport, name: TableName}: Table, wait: WaitOptions): Promise<void> {
  await transport.send('UpdateTable', {TableName, DeletionProtectionEnabled: false})
  await poll(wait, async () => {
    const {Table: found} = await transport.send('DescribeTable', {TableName})
    return found?.TableStatus === 'ACTIVE' && found.DeletionProtectionEnabled !== true ? true : undefined
  })
}

function deleteFailed(stack: string, events: readonly StackEvent[]): ZaelError {
  const first = firstFailure(events)
  const what = first ? `${first.logicalId} (${first.type}): ${first.reason ?? first.status}` : 'no reason given'
  return new ZaelError('failed', 'delete.failed', `Stack "${stack}" could not be deleted. ${what}`, {
    hint: 'The table and its data are unchanged. Fix the cause, then run the same command again to resume.',
    details: {stack, resource: first?.logicalId ?? null, reason: first?.reason ?? null},
  })
}

async function deleteArchive(aws: Aws, Bucket: string, {signal}: WaitOptions): Promise<number> {
  return callAws(`empty the bucket "${Bucket}"`, async () => {
    const client = await aws.s3()
    let deleted = 0
    for (;;) {
      if (signal?.aborted === true) throw new Aborted('Emptying the archive', false, signal.reason)
      // Always the first page: its objects are gone by the next request.
      const {Versions = [], DeleteMarkers = []} = await client.send(new ListObjectVersionsCommand({Bucket}))
      const Objects = [...Versions, ...DeleteMarkers].map(({Key, VersionId}) => ({Key, VersionId}))
      if (Objects.length === 0) break
      const {Errors: [failed] = []} = await client.send(
        new DeleteObjectsCommand({Bucket, Delete: {Objects, Quiet: true}}),
      )
      if (failed) throw cannotDelete(Bucket, failed.Key ?? '', failed.Message ?? failed.Code ?? '')
      deleted += Objects.length
    }
    await client.send(new DeleteBucketCommand({Bucket}))
    return deleted
  })
}

function cannotDelete(bucket: string, key: string, reason: string): ZaelError {
  return new ZaelError('failed', 'delete.archive', `Cannot delete "${key}" from the bucket "${bucket}": ${reason}`, {
    hint: `Fix the cause, then delete the rest: aws s3 rb s3://${bucket} --force`,
    details: {bucket, key},
  })
}

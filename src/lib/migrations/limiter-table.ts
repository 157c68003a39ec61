import {ZaelError} from '../core/errors.js'
import {isRetryableWhenIdempotent} from '../dynamo/errors.js'
import {retrying} from '../dynamo/retry.js'
import {type Table, untilAborted} from '../repository/table/table.js'
import {classifyItem} from './records/classify.js'
import type {MigrationContext} from './records/finding.js'
import {openMigrationContext} from './walk/context.js'
import {patient} from './walk/patience.js'
import {tablePages} from './walk/scan.js'
import {refuseNewerSchema} from './walk/version-step.js'

/** Pages that are looked through for a record of a rate limiter. */
const PAGES_OF_EVIDENCE = 10

/** Partition key, then sort key. */
const KEYS = ['PK', 'SK']

export interface OpenOptions {
  /** Of this zael; without it only the layout of the table is judged. */
  readonly ourVersion?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Opens a table that is a rate limiter's, in a layout that this zael knows; throws otherwise. Whoever mistypes a name must
 * not have indexes added to somebody else's table, nor expiry, which would delete what lies there. Writes nothing.
 */
export async function openLimiterTable(
  table: Table,
  {ourVersion, signal}: OpenOptions = {},
): Promise<MigrationContext> {
  await refuseOtherKeys(patient(table), signal)
  const stage = await openMigrationContext(table, signal)
  const bound = signal ? untilAborted(stage.table, signal) : stage.table
  const {record, hasLegacyRecord} = await refuseNewerSchema(bound, ourVersion)
  if (!record && !hasLegacyRecord && !(await isEmptyOrKnown(stage))) {
    throw notALimiterTable(table, 'it has no version record, and nothing in it looks like a record of one')
  }
  return stage
}

async function refuseOtherKeys(table: Table, signal: AbortSignal | undefined): Promise<void> {
  const send = () => table.transport.send('DescribeTable', {TableName: table.name}, {signal})
  const {Table: found} = await retrying(send, {...table.backoff, signal, retryable: isRetryableWhenIdempotent})
  const names = (found?.KeySchema ?? []).map(({AttributeName = ''}) => AttributeName)
  const isText = (name: string) =>
    found?.AttributeDefinitions?.some(
      ({AttributeName, AttributeType}) => AttributeName === name && AttributeType === 'S',
    )
  if (names.join() === KEYS.join() && names.every(isText)) return
  throw notALimiterTable(table, `its key is ${names.join(' and ')}, not the texts ${KEYS.join(' and ')}`)
}

/** Whether the first pages hold a record of any layout, or the table nothing at all. */
async function isEmptyOrKnown(stage: MigrationContext): Promise<boolean> {
  let pages = 0
  let isEmpty = true
  for await (const {items} of tablePages(stage)) {
    if (items.some(item => classifyItem(item).kind !== 'unknown')) return true
    if (items.length > 0) isEmpty = false
    if (++pages === PAGES_OF_EVIDENCE) break
  }
  return isEmpty
}

function notALimiterTable({name}: Table, why: string): ZaelError {
  const said = `Table "${name}" is not one of a rate limiter: ${why}. Nothing was written.`
  return new ZaelError('conflict', 'migrate.not-a-limiter-table', said, {
    hint: 'Check the name of the stack, the region and the endpoint; `zael list` shows the stacks there are.',
    details: {table: name},
  })
}

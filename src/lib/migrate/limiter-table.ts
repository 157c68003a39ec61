import {ZaelError} from '../core/errors.js'
import {sendRepeatable, type Table, untilAborted} from '../repository/table/table.js'
import {readVersion} from '../repository/table/version.js'
import {incompatibility} from '../repository/table/version-compatibility.js'
import {keyNames} from '../schema/attributes.js'
import type {MigrationContext} from './records/finding.js'
import {openMigrationContext, withLongRetries} from './walk/lease.js'
import {tablePages} from './walk/scan.js'

const PAGES_SEARCHED = 10

const KEY_NAMES = keyNames()

interface OpenOptions {
  /** If absent, only the layout of the table is checked. */
  readonly ourVersion?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Read-only. Throws unless this is a limiter's table of a known layout: a mistyped name must not add indexes or expiry.
 */
export async function openLimiterTable(
  table: Table,
  {ourVersion, signal}: OpenOptions = {},
): Promise<MigrationContext> {
  await refuseOtherKeys(withLongRetries(table), signal)
  const context = await openMigrationContext(table, signal)
  const abortable = signal ? untilAborted(context.table, signal) : context.table
  const {record, hasLegacyRecord} = await readVersion(abortable)
  // An older layout is accepted.
  const refusal = incompatibility(record, ourVersion, false)
  if (refusal && refusal.code !== 'schema.needs-migration') throw refusal
  if (!record && !hasLegacyRecord && !(await isEmptyOrKnown(context))) {
    throw notALimiterTable(table, 'it has no version record and no record of a known layout')
  }
  return context
}

async function refuseOtherKeys(table: Table, signal: AbortSignal | undefined): Promise<void> {
  const {Table: found} = await sendRepeatable(table, 'DescribeTable', {TableName: table.name}, {signal})
  const names = (found?.KeySchema ?? []).map(({AttributeName = ''}) => AttributeName)
  const isString = (name: string) =>
    found?.AttributeDefinitions?.some(
      ({AttributeName, AttributeType}) => AttributeName === name && AttributeType === 'S',
    )
  if (names.join() === KEY_NAMES.join() && names.every(isString)) return
  throw notALimiterTable(table, `its key is ${names.join(' and ')}, not ${KEY_NAMES.join(' and ')} (strings)`)
}

async function isEmptyOrKnown(context: MigrationContext): Promise<boolean> {
  let pages = 0
  let isEmpty = true
  for await (const {items} of tablePages(context)) {
    if (items.some(item => context.classify(item).kind !== 'unknown')) return true
    if (items.length > 0) isEmpty = false
    if (++pages === PAGES_SEARCHED) break
  }
  return isEmpty
}

function notALimiterTable({name}: Table, why: string): ZaelError {
  const message = `Table "${name}" is not a rate limiter's table: ${why}. Nothing was written.`
  return new ZaelError('conflict', 'migrate.not-a-limiter-table', message, {
    hint: 'Check the stack name, the region and the endpoint. List the stacks: `zael list`.',
    details: {table: name},
  })
}

import type {BoostRecord} from '../../schema/boost-record.js'
import {Audit, storedAuditRetention} from '../audit/audit.js'
import type {NamespaceTable} from '../table/table.js'
import {allBoosts} from './boost-records.js'
import {TIDY_AFTER_MS} from './boosted-limits.js'
import {syncBuckets} from './bucket-sync.js'
import {Configs} from './configs.js'
import {limitSync} from './limit-sync.js'

/** Whether a boost of a scope ended long enough ago to be tidied up, whatever the clocks of others show. */
export function isTidyDue({boosts}: Pick<BoostRecord, 'boosts'>, nowMs: number): boolean {
  return [...boosts.values()].some(({untilMs}) => untilMs + TIDY_AFTER_MS <= nowMs)
}

/**
 * Removes what is left of boosts that have ended: windows that are closed, limits that were copied for them, and their
 * records. One query where there is nothing to do. Limits stay as they apply, so nothing depends on when this is done, as
 * long as it is before the windows open again a year later. Resolves to the number of scopes that were tidied up.
 */
export async function tidyBoosts(
  table: NamespaceTable,
  {principal, signal}: {readonly principal?: string | undefined; readonly signal?: AbortSignal | undefined} = {},
): Promise<number> {
  const due = (await allBoosts(table)).filter(record => isTidyDue(record, table.clock()))
  for (const record of due) await tidyScope(table, record, {principal, signal})
  return due.length
}

/** The same for one scope; live buckets follow, those that are not reached with their next request. */
export async function tidyScope(
  table: NamespaceTable,
  {scope}: Pick<BoostRecord, 'scope'>,
  {principal, signal}: {readonly principal?: string | undefined; readonly signal?: AbortSignal | undefined} = {},
): Promise<void> {
  const audit = new Audit(table, {principal, retentionDays: storedAuditRetention(table)})
  await new Configs(table, {audit}).tidy(scope)
  await syncBuckets(table, scope, [limitSync], {signal})
}

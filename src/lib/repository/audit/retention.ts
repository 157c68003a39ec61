import {configKey, decodeConfig} from '../../schema/config-record.js'
import {getItem, type NamespaceTable} from '../table/table.js'

/** A change of the setting is followed after this long at the latest. */
const KEPT_MS = 60_000

/**
 * How many days audit events of a namespace are kept, as its system configuration says; `undefined` when it says nothing.
 * Read when it is first asked for, then once a minute at most: who changes much asks often (C-9, D-30).
 */
export function storedAuditRetention(table: NamespaceTable): () => Promise<number | undefined> {
  let known: Promise<number | undefined> | undefined
  let askedAtMs = 0
  return () => {
    const nowMs = table.clock()
    if (!known || nowMs < askedAtMs || nowMs - askedAtMs >= KEPT_MS) {
      askedAtMs = nowMs
      known = read(table)
      known.catch(() => {
        known = undefined
      })
    }
    return known
  }
}

async function read(table: NamespaceTable): Promise<number | undefined> {
  const item = await getItem(table, configKey(table.namespace, {level: 'system'}), {consistent: false})
  return item && decodeConfig(item)?.auditRetentionDays
}

import {formatCount, formatPlural} from '../../core/text/text.js'
import {declareDead, HolderRecords, readHolder, reapSlots} from '../../repository/buckets/holders.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {type Item, n} from '../../schema/attribute-value.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type HolderRecord, seemsDead} from '../../schema/holder-record.js'
import {slotAttribute} from '../../schema/slot-attributes.js'
import {stateOf, waitForBeats} from '../holders/release.js'
import {repairAttributes, type VerifyContext} from './context.js'
import type {ItemFinding} from './finding.js'

/** Of shard 0, which has the slots of all shards. */
export async function checkSlots(context: VerifyContext, item: Item, record: BucketRecord): Promise<ItemFinding[]> {
  const {slots} = record
  if (!slots) return []
  const table = context.in(record.namespace)
  const findings: ItemFinding[] = []
  for (const [name, {capacity, free}] of slots.limits) {
    const inUse = [...slots.accounts.values()].reduce((sum, {held}) => sum + (held.get(name) ?? 0), 0)
    if (free + inUse === capacity) continue
    const reason =
      `${name} has ${formatPlural(capacity, 'slot')}, but ${formatCount(free)} free and ${formatCount(inUse)} in use: ` +
      `${formatCount(Math.abs(free + inUse - capacity))} ${free + inUse < capacity ? 'lost' : 'too many'}.`
    // Every write keeps the difference, so with the same number of free slots the repair is still right.
    const repair = () => repairAttributes(table, item, {[slotAttribute.free(name)]: n(capacity - inUse)})
    findings.push({kind: 'slots', subject: name, reason, repair})
  }
  return [...findings, ...(await ofHolders(table, record, context.nowMs))]
}

async function ofHolders(table: NamespaceTable, record: BucketRecord, nowMs: number): Promise<ItemFinding[]> {
  const held = [...(record.slots?.accounts ?? [])].filter(([, account]) => account.held.size > 0)
  const records = held.length === 0 ? new Map() : await new HolderRecords(table).getMany(held.map(([id]) => id))
  const seenMs = performance.now()
  return held.flatMap(([id, account]) => {
    const seen: HolderRecord | undefined = records.get(id)
    if (!seemsDead(seen, nowMs)) return []
    const slots = [...account.held.values()].reduce((sum, count) => sum + count, 0)
    const what = seen?.isDead ? 'was declared dead' : seen ? 'does not renew them' : 'has no record'
    const process = seen?.host === undefined ? id : `${id} (${seen.host}, pid ${seen.pid})`
    const reason = `Holder ${process} has ${formatPlural(slots, 'slot')} and ${what}.`
    // With its beat: a process with a wrong clock beats before the last look, so that the finding disappears.
    const subject = `${id} ${seen?.beat ?? ''}`
    return [{kind: 'holder', subject, reason, repair: () => release(table, record, id, {seen, seenMs})} as const]
  })
}

interface Look {
  readonly seen: HolderRecord | undefined
  /** On the monotonic clock. Holders of one report are compared during the same 35 seconds. */
  readonly seenMs: number
}

/** Resolves to false if the holder has beaten since. */
async function release(
  table: NamespaceTable,
  bucket: BucketRecord,
  id: string,
  {seen, seenMs}: Look,
): Promise<boolean> {
  let now = await readHolder(table, id)
  if (!now?.isDead) {
    await waitForBeats(table.backoff, {passedMs: performance.now() - seenMs})
    now = await readHolder(table, id)
    if (stateOf(seen, now) === 'alive') return false
    if (!now?.isDead && !(await declareDead(table, id, now))) return false
  }
  return (await reapSlots(table, bucket, id)).size > 0
}

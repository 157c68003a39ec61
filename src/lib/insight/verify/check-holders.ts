import {formatCount, formatList, formatPlural} from '../../core/text/text.js'
import {declareDead, HolderRecords, readHolder, reapSlots} from '../../repository/buckets/holders.js'
import {returnReservation} from '../../repository/buckets/reservations.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {Item} from '../../schema/attribute-value.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type HolderRecord, seemsDead} from '../../schema/holder-record.js'
import {decodeReservation} from '../../schema/reservation-record.js'
import {reservedOf, stateOf, waitForBeats} from '../holders/release.js'
import type {VerifyContext} from './context.js'
import type {ItemFinding} from './finding.js'

export async function checkSlotHolders(
  table: NamespaceTable,
  record: BucketRecord,
  nowMs: number,
): Promise<ItemFinding[]> {
  const held = [...(record.slots?.accounts ?? [])].filter(([, account]) => account.held.size > 0)
  const records = held.length === 0 ? new Map() : await new HolderRecords(table).getMany(held.map(([id]) => id))
  const seenMs = performance.now()
  return held.flatMap(([id, account]) => {
    const seen: HolderRecord | undefined = records.get(id)
    if (!seemsDead(seen, nowMs)) return []
    const slots = [...account.held.values()].reduce((sum, count) => sum + count, 0)
    const repair = async () => (await bury(table, id, {seen, seenMs})) && (await reapSlots(table, record, id)).size > 0
    return [deadHolder(id, seen, formatPlural(slots, 'slot'), repair)]
  })
}

/** Of a process that may be dead: nobody has looked since, or it was stored after others looked. */
export function checkReservation(context: VerifyContext, item: Item): ItemFinding[] {
  const reservation = decodeReservation(item)
  if (!reservation || reservation.isEnded || reservation.returned) return []
  const {namespace, holder, tokens} = reservation
  const seen = context.referred.holder(namespace, holder)
  if (!seemsDead(seen, context.nowMs)) return []
  const table = context.in(namespace)
  const seenMs = performance.now()
  const repair = async () =>
    (await bury(table, holder, {seen, seenMs})) && (await returnReservation(table, reservation)) !== undefined
  const reserved = reservedOf(tokens).flatMap(each => {
    return [...each.tokens].map(([limit, count]) => {
      return `${formatCount(count)} ${limit} of ${each.entity} · ${each.resource}`
    })
  })
  return [deadHolder(holder, seen, `reserved ${formatList(reserved)}`, repair)]
}

function deadHolder(
  id: string,
  seen: HolderRecord | undefined,
  held: string,
  repair: () => Promise<boolean>,
): ItemFinding {
  const what = seen?.isDead ? 'was declared dead' : seen ? 'writes no beats' : 'has no record'
  const process = seen?.host === undefined ? id : `${id} (${seen.host}, pid ${seen.pid})`
  // With its beat: a process with a wrong clock beats before the last look, so that the finding disappears.
  const subject = `${id} ${seen?.beat ?? ''}`
  return {kind: 'holder', subject, reason: `Holder ${process} has ${held} and ${what}.`, repair}
}

interface Look {
  readonly seen: HolderRecord | undefined
  /** On the monotonic clock. Holders of one report are compared during the same 35 seconds. */
  readonly seenMs: number
}

/** Declares it dead. Resolves to false if it has beaten since. */
async function bury(table: NamespaceTable, id: string, {seen, seenMs}: Look): Promise<boolean> {
  let now = await readHolder(table, id)
  if (now?.isDead) return true
  await waitForBeats(table.backoff, {passedMs: performance.now() - seenMs})
  now = await readHolder(table, id)
  if (stateOf(seen, now) === 'alive') return false
  return now?.isDead || declareDead(table, id, now)
}

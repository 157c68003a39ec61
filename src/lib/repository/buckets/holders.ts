import type {BucketName} from '../../core/names.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {ConditionFailed, isUnavailability} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause} from '../../dynamo/retry.js'
import {bool, type Item, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {decodeBucket} from '../../schema/bucket-record.js'
import {decodeHolder, encodeHolder, type HolderRecord, holderExpiry} from '../../schema/holder-record.js'
import {keyId, keys, parseItemKey, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import type {Reservation} from '../../schema/reservation-record.js'
import {type BucketSlots, decodeSlots, slotAttribute} from '../../schema/slot-attributes.js'
import {type PageRequest, type RecordPage, readAll, readPage} from '../table/query.js'
import {getItem, getItems, type NamespaceTable, sendRepeatable} from '../table/table.js'
import {openReservations} from './reservations.js'

const names = attributes.holder

interface Beat {
  /** The record without its beat; stored with the first one. */
  readonly holder: Omit<HolderRecord, 'beat' | 'isDead'>
  readonly before: string | undefined
  readonly next: string
}

/** Sends one beat until its outcome is known. False: the holder was declared dead, or its record is another's. */
export async function sendBeat(table: NamespaceTable, beat: Beat, signal?: AbortSignal): Promise<boolean> {
  const {holder, before, next} = beat
  const e = new ExpressionBuilder()
  const stored = e.name(names.beat)
  // Equal to `next`: an earlier attempt was applied and its response lost.
  // Planted fault: a beat whose answer was lost ends its holder
  const isMine = `${stored} = ${e.value(s(next))}`
  e.condition(
    before === undefined
      ? `attribute_not_exists(${stored}) OR ${isMine}`
      : `${stored} = ${e.value(s(before))} OR ${isMine}`,
  )
  e.condition(`attribute_not_exists(${e.name(names.dead)})`)
  e.set(names.beat, s(next)).set(names.expiresAt, n(holderExpiry(table.clock())))
  if (before === undefined) for (const [name, value] of Object.entries(encodeHolder(holder))) e.set(name, value)
  const Key = wireKey(keys.holder(table.namespace, holder.id))
  for (let attempt = 0; ; attempt++) {
    try {
      await table.transport.send('UpdateItem', {TableName: table.name, Key, ...e.update()}, {signal})
      return true
    } catch (error) {
      if (error instanceof ConditionFailed) return false
      if (!isUnavailability(error) || signal?.aborted) throw error
    }
    await pause(attempt, table.backoff, signal)
  }
}

/** Strongly consistent. `undefined`: no record. */
export async function readHolder(table: NamespaceTable, id: string): Promise<HolderRecord | undefined> {
  const item = await getItem(table, keys.holder(table.namespace, id))
  return item && decodeHolder(item)
}

/** False if it has beaten since `seen` was read. */
export async function declareDead(table: NamespaceTable, id: string, seen: HolderRecord | undefined): Promise<boolean> {
  const e = new ExpressionBuilder()
  e.require(names.beat, seen?.beat)
  // Without a record too: a first beat that is still under way must fail.
  for (const [name, value] of Object.entries(encodeHolder(seen ?? emptyHolder(table, id)))) e.set(name, value)
  e.set(names.dead, bool(true)).set(names.expiresAt, n(holderExpiry(table.clock())))
  const Key = wireKey(keys.holder(table.namespace, id))
  try {
    await sendRepeatable(table, 'UpdateItem', {TableName: table.name, Key, ...e.update()})
    return true
  } catch (error) {
    if (error instanceof ConditionFailed) return false
    throw error
  }
}

const emptyHolder = ({namespace}: NamespaceTable, id: string): HolderRecord => ({
  ...{namespace, id, beat: undefined, isDead: false, host: undefined, pid: undefined, startedAt: undefined},
})

/** A holder that ended in order needs no record: nobody has to wait for it. */
export async function deleteHolder(table: NamespaceTable, id: string, beat: string): Promise<void> {
  const e = new ExpressionBuilder().require(names.beat, beat)
  const Key = wireKey(keys.holder(table.namespace, id))
  await table.transport.send('DeleteItem', {TableName: table.name, Key, ...e.write()})
}

/** Extends the expiry of a bucket in which the holder has slots. Repeating it changes nothing. */
export async function keepBucket(
  table: NamespaceTable,
  {entity, resource}: BucketName,
  holder: string,
  untilSeconds: number,
): Promise<void> {
  const {expiresAt} = attributes.bucket
  const e = new ExpressionBuilder().exists(slotAttribute.account(holder))
  e.condition(`${e.name(expiresAt)} < ${e.value(n(untilSeconds))}`).set(expiresAt, n(untilSeconds))
  const Key = wireKey(keys.bucket(table.namespace, entity, resource, 0))
  await sendRepeatable(table, 'UpdateItem', {TableName: table.name, Key, ...e.update()}).catch(error => {
    if (!(error instanceof ConditionFailed)) throw error
  })
}

const MOST_TRIES = 20

/** Returns the slots of a dead holder to a bucket, and resolves to their number per limit. Repeating it changes nothing. */
export async function reapSlots(
  table: NamespaceTable,
  bucket: {readonly entity: string; readonly resource: string},
  holder: string,
): Promise<ReadonlyMap<string, number>> {
  const key = keys.bucket(table.namespace, bucket.entity, bucket.resource, 0)
  let item = await getItem(table, key)
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const stored = item && decodeBucket(item)
    const slots = stored?.kind === 'bucket' ? stored.record.slots : undefined
    const account = slots?.accounts.get(holder)
    if (!slots || !account) break
    const e = new ExpressionBuilder()
    // Planted fault: the slots of a dead holder are returned whatever its account
    e.require(slotAttribute.account(holder), account.text).remove(slotAttribute.account(holder))
    for (const [name, count] of account.held) returnFree(e, name, count, slots.limits.get(name)?.capacity)
    const request = {
      ...{TableName: table.name, Key: wireKey(key), ...e.update()},
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
    }
    try {
      await sendRepeatable(table, 'UpdateItem', request)
      return account.held
    } catch (error) {
      if (!(error instanceof ConditionFailed)) throw error
      item = error.oldItem as Item | undefined
    }
  }
  return new Map()
}

/** A limit that is removed, or added again, at the same time must not lose or gain slots. */
function returnFree(e: ExpressionBuilder, name: string, count: number, capacity: number | undefined): void {
  e.require(slotAttribute.capacity(name), capacity)
  if (capacity !== undefined) e.add(slotAttribute.free(name), n(count))
}

const BUCKETS_PER_READ = 100

const PARTITIONS_AT_ONCE = 8

/** A bucket of which slots are held. */
export interface HeldBucket {
  readonly entity: string
  readonly resource: string
  readonly slots: BucketSlots
}

/** The stored holders of one namespace, as operators see them. */
export class HolderRecords {
  readonly #table: NamespaceTable

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  /** By id, without those that have no record. Strongly consistent. */
  async getMany(ids: Iterable<string>): Promise<Map<string, HolderRecord>> {
    const wanted = Array.from(ids, id => keys.holder(this.#table.namespace, id))
    const items = await getItems(this.#table, wanted)
    const records = [...items.values()].flatMap(item => decodeHolder(item) ?? [])
    return new Map(records.map(record => [record.id, record]))
  }

  /** Of all holders; eventually consistent. */
  async ids(): Promise<string[]> {
    const ids: string[] = []
    for await (const item of readAll(this.#table, ranges.holders(this.#table.namespace))) ids.push(...holdersIn([item]))
    return ids
  }

  /** Open ones of these holders. Reads the partition of each. */
  async reservations(ids: Iterable<string>): Promise<Reservation[]> {
    const open: Reservation[] = []
    await forEachConcurrently(ids, PARTITIONS_AT_ONCE, async id => {
      open.push(...(await openReservations(this.#table, id)))
    })
    return open
  }

  /** By id. */
  async list(page: PageRequest = {}): Promise<RecordPage<HolderRecord>> {
    const query = {kind: 'holders', ...ranges.holders(this.#table.namespace)} as const
    const {records, next} = await readPage(this.#table, query, page)
    const ids = holdersIn(records)
    // The index has only keys.
    const found = await this.getMany(ids)
    return {records: ids.flatMap(id => found.get(id) ?? []), next}
  }

  /** Buckets with slots of any holder. Reads the first shard of every bucket of the namespace. */
  async *held(signal?: AbortSignal): AsyncGenerator<HeldBucket, void> {
    const range = ranges.buckets(this.#table.namespace)
    for await (const chunk of chunksOf(readAll(this.#table, range, undefined, signal), BUCKETS_PER_READ)) {
      const first = chunk.flatMap(item => {
        const key = parseItemKey(item)
        return key?.record === 'bucket' && key.shard === 0 ? [key] : []
      })
      const wanted = first.map(({namespace, entity, resource}) => keys.bucket(namespace, entity, resource, 0))
      const items = await getItems(this.#table, wanted, {signal})
      for (const {entity, resource} of first) {
        const item = items.get(keyId(keys.bucket(this.#table.namespace, entity, resource, 0)))
        const slots = item && decodeSlots(item, 0)
        if (slots && slots.accounts.size > 0) yield {entity, resource, slots}
      }
    }
  }
}

function holdersIn(items: readonly Item[]): string[] {
  return items.flatMap(item => {
    const key = parseItemKey(item)
    return key?.record === 'holder' ? [key.id] : []
  })
}

import {chunksOf} from '../../dynamo/concurrency.js'
import {scanPages} from '../../dynamo/paging.js'
import {paced} from '../../dynamo/rate-limit.js'
import {addressOf, Buckets, MAX_SHARDS} from '../../repository/buckets/buckets.js'
import {decodeCursor, encodeCursor, readFromCursor} from '../../repository/table/cursor.js'
import {readAll} from '../../repository/table/query.js'
import {getItem, getItems, type Table} from '../../repository/table/table.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {keyId, keyOf, keys} from '../../schema/keys.js'
import {migrationRecordKey} from '../../schema/migration-record.js'
import {ranges, startKeyOf, wireStartKey} from '../../schema/ranges.js'
import {checkItem, isOldItem} from './check-item.js'
import {beginLook, type LookOptions, readNamespaces} from './context.js'
import {type Finding, type FindingKind, findingId} from './finding.js'

const LOOKS = 3

/** Longer than a write, its index entries and a transaction take. */
const BETWEEN_LOOKS_MS = 1500

/**
 * After this, no client uses limits from before a change: its cache has expired and its writes are done. A living holder
 * has beaten.
 */
const SETTLE_MS = 40_000

const SETTLES: ReadonlySet<FindingKind> = new Set(['limits', 'holder'])

/** Some items need extra requests, for usage or other shards. */
const ITEMS_AT_ONCE = 8

/** Kept in memory. Further findings are only counted. */
const MOST_FINDINGS = 10_000

export interface VerifyTableOptions {
  readonly entity?: {readonly namespace: string; readonly entity: string} | undefined
  /** Skip usage before this instant, and buckets last refilled before it. Epoch ms. */
  readonly sinceMs?: number | undefined
  /** Read units per second. */
  readonly rateLimit?: number | undefined
  readonly cursor?: string | undefined
  readonly signal?: AbortSignal | undefined
  /** Called after each page. `cursor` resumes after it. */
  readonly onProgress?: ((progress: VerifyProgress) => void) | undefined
}

export interface VerifyProgress {
  readonly items: number
  readonly findings: number
  readonly cursor: string | undefined
}

export interface VerifyReport {
  /** Includes `oldItems`. */
  readonly items: number
  /** Items of older layouts. They are not checked; `zael migrate` moves them. */
  readonly oldItems: number
  readonly findings: readonly Finding[]
  readonly counts: ReadonlyMap<FindingKind, number>
}

/** Read-only. The table changes meanwhile, so only findings that two scans agree on are reported. */
export function verifyTable(table: Table, options: VerifyTableOptions = {}): Promise<VerifyReport> {
  return readFromCursor(options.cursor, () => compareAll(table, options))
}

async function compareAll(table: Table, given: VerifyTableOptions): Promise<VerifyReport> {
  const slowed = paced(table, 'reads', given.rateLimit)
  const {signal, sinceMs = Number.NEGATIVE_INFINITY, onProgress} = given
  const isMigrated = (await getItem(slowed, migrationRecordKey)) !== undefined
  // A namespace created meanwhile is known at the second scan.
  const options = {signal, sinceMs, isMigrated, namespaces: await readNamespaces(slowed, signal)}
  const counts = new Map<FindingKind, number>()
  const findings: Finding[] = []
  const add = (found: readonly Seen[]) => {
    for (const {finding} of found) {
      counts.set(finding.kind, (counts.get(finding.kind) ?? 0) + 1)
      if (findings.length < MOST_FINDINGS) findings.push(finding)
    }
  }
  let unsettled: Seen[] = []
  let unsettledSinceMs = 0
  let [items, oldItems] = [0, 0]
  for await (const {items: page, cursor} of pagesOf(slowed, given)) {
    const current = page.filter(item => !isOldItem(item))
    items += page.length
    oldItems += page.length - current.length
    const found = await confirmed(slowed, current, options)
    const later = found.filter(({finding}) => SETTLES.has(finding.kind))
    add(found.filter(each => !later.includes(each)))
    if (later.length > 0) unsettledSinceMs = table.clock()
    unsettled = [...unsettled, ...later]
    onProgress?.({items, findings: findings.length + unsettled.length, cursor})
  }
  if (unsettled.length > 0) {
    await table.backoff.sleep(Math.max(0, unsettledSinceMs + SETTLE_MS - table.clock()), signal)
    add(await stillThere(slowed, unsettled, options))
  }
  return {items, oldItems, findings, counts}
}

interface Seen {
  readonly item: Item
  readonly finding: Finding
}

async function confirmed(table: Table, page: readonly Item[], options: LookOptions): Promise<Seen[]> {
  let found = await look(table, page, options)
  for (let looks = 1; looks < LOOKS && found.length > 0; looks++) {
    await table.backoff.sleep(BETWEEN_LOOKS_MS, options.signal)
    found = await stillThere(table, found, options)
  }
  return found
}

async function stillThere(table: Table, found: readonly Seen[], options: LookOptions): Promise<Seen[]> {
  const concerned = new Map(found.map(({item}) => [keyId(keyOf(item)), keyOf(item)]))
  const before = new Set(found.map(({finding}) => findingId(finding)))
  const items = await readAgain(table, [...concerned.values()], options)
  const again = await look(table, items, {...options, namespaces: await readNamespaces(table, options.signal)})
  return again.filter(({finding}) => before.has(findingId(finding)))
}

async function look(table: Table, items: readonly Item[], options: LookOptions): Promise<Seen[]> {
  const context = await beginLook(items, table, options)
  const found: Seen[] = []
  for await (const chunk of chunksOf(items, ITEMS_AT_ONCE)) {
    const findings = await Promise.all(chunk.map(item => checkItem(context, item)))
    for (const [at, item] of chunk.entries()) for (const finding of findings[at] ?? []) found.push({item, finding})
  }
  return found
}

async function readAgain(
  table: Table,
  wanted: readonly Key[],
  {signal}: Pick<VerifyTableOptions, 'signal'>,
): Promise<Item[]> {
  return [...(await getItems(table, wanted, {signal})).values()]
}

interface VerifyPage {
  readonly items: readonly Item[]
  readonly cursor: string | undefined
}

async function* pagesOf(table: Table, options: VerifyTableOptions): AsyncGenerator<VerifyPage, void> {
  const {entity, cursor, signal} = options
  if (entity) {
    yield {items: await itemsOfEntity(table, entity, signal), cursor: undefined}
    return
  }
  const start = cursor === undefined ? {} : {ExclusiveStartKey: wireStartKey(decodeCursor('verify', cursor), undefined)}
  const input = {TableName: table.name, ConsistentRead: true, Limit: ITEMS_PER_PAGE, ...start}
  for await (const {items, next} of scanPages(table.transport, input, {backoff: table.backoff, signal})) {
    yield {items, cursor: next && encodeCursor('verify', startKeyOf(next, undefined))}
  }
}

/** Small, so that little is read again after an interruption. */
const ITEMS_PER_PAGE = 500

async function itemsOfEntity(
  table: Table,
  {namespace, entity}: {readonly namespace: string; readonly entity: string},
  signal: AbortSignal | undefined,
): Promise<Item[]> {
  const items: Item[] = []
  for await (const item of readAll(table, ranges.entity(namespace, entity), undefined, signal)) items.push(item)
  for await (const {resource, shardCount, shards} of new Buckets({...table, namespace}).ofEntity(entity, {signal})) {
    const numbers = new Set([
      ...Array(Math.min(shardCount, MAX_SHARDS)).keys(),
      ...shards.map(shard => addressOf(shard).shard),
    ])
    items.push(
      ...(await readAgain(
        table,
        [...numbers].map(shard => keys.bucket(namespace, entity, resource, shard)),
        {signal},
      )),
    )
  }
  return items
}

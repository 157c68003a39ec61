import {capacityOf, isRead, type Operation} from '../../../src/lib/dynamo/transport.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {Change} from '../../helpers/memory-table/table.js'

/** The writer: a numbered process, or one of the others. */
export interface Writer {
  readonly kind: 'limiter' | 'operator' | 'reader' | 'aggregator' | 'python' | 'expiry' | 'setup'
  readonly process: number
  /** The operator's action. */
  readonly event?: string
}

/** One limit of a bucket item, read without the library's decoder. */
export interface StoredLimit {
  readonly tokens: bigint
  readonly consumed: bigint
  readonly capacity: bigint
  readonly amount: bigint
  readonly period: bigint
  /** Numerator over `period` of a millitoken that was earned and not credited. */
  readonly remainder: bigint
}

/** A stored bucket item; amounts in millitokens, times in epoch ms. */
export interface StoredShard {
  readonly refilledAt: bigint | undefined
  readonly shardCount: number
  readonly requests: number
  /** Until when limits are bypassed. */
  readonly bypass: bigint | undefined
  /** Refused requests by kind: `requests`, `by parent`, `requests of rpm`, `tokens of rpm`. */
  readonly refused: ReadonlyMap<string, bigint>
  readonly limits: ReadonlyMap<string, StoredLimit>
  readonly marks: ReadonlyMap<string, string>
  /** Provider feedback, by limit. */
  readonly feedback: ReadonlyMap<string, string>
}

/** The change of one bucket item by one write. */
export interface ShardChange {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly shard: number
  /** `namespace/entity/resource`. */
  readonly bucket: string
  readonly before: StoredShard | undefined
  readonly after: StoredShard | undefined
}

/** One applied request of a limiter, and its cost. */
export interface TableRequest {
  /** Since the start, in ms. */
  readonly atMs: number
  readonly process: number
  readonly operation: Operation
  readonly kind: 'read' | 'applied' | 'refused'
  /** Write units in the table and in its indexes. */
  readonly tableUnits: number
  readonly indexUnits: number
  readonly shards: readonly ShardChange[]
}

/** One request that changed something. */
export interface TableWrite {
  readonly atMs: number
  readonly writer: Writer
  readonly shards: readonly ShardChange[]
  readonly changes: readonly Change[]
  readonly isTransaction?: boolean
}

export const bucketId = (namespace: string, entity: string, resource: string): string =>
  `${namespace}/${entity}/${resource}`

/** The change of a bucket item; `undefined` for other items, including records of operations beside it. */
export function shardChange({before, after}: Change): ShardChange | undefined {
  const item = before ?? after ?? {}
  const match = /^([^/]*)\/BUCKET#([^#]*)#(.*)#(\d+)$/.exec(text(item, 'PK'))
  if (!match || text(item, 'SK') !== '#STATE') return undefined
  const [, namespace = '', entity = '', resource = '', shard = '0'] = match
  const bucket = bucketId(namespace, entity, resource)
  return {
    namespace,
    entity,
    resource,
    shard: Number(shard),
    bucket,
    before: before && storedShard(before),
    after: after && storedShard(after),
  }
}

/** Items in the table are never mutated. */
const stored = new WeakMap<Item, StoredShard>()

/** Each item is decoded once, though it is judged as the new and as the old state. */
function storedShard(item: Item): StoredShard {
  let shard = stored.get(item)
  if (!shard) {
    shard = readShard(item)
    stored.set(item, shard)
  }
  return shard
}

function readShard(item: Item): StoredShard {
  const refilledAt = whole(item, 'rf')
  const [tag, list = ''] = text(item, 'rfr').split('|')
  const remainders = new Map<string, bigint>()
  if (tag === String(refilledAt)) {
    for (const part of list.split(',')) {
      const [, name = '', remainder = '0'] = /^(.+):(\d+)\/\d+$/.exec(part) ?? []
      remainders.set(name, BigInt(remainder))
    }
  }
  const limits = new Map<string, StoredLimit>()
  const marks = new Map<string, string>()
  const feedback = new Map<string, string>()
  for (const attribute of Object.keys(item)) {
    if (attribute.startsWith('wn_')) marks.set(attribute, text(item, attribute))
    if (attribute.startsWith('told_')) feedback.set(attribute.slice('told_'.length), text(item, attribute))
    const name = /^b_(.+)_t[kc]$/.exec(attribute)?.[1]
    if (name === undefined || name === 'wcu' || limits.has(name)) continue
    const number = (field: string) => whole(item, `b_${name}_${field}`) ?? 0n
    limits.set(name, {
      tokens: number('tk'),
      consumed: number('tc'),
      capacity: number('cp'),
      amount: number('ra'),
      period: number('rp'),
      remainder: remainders.get(name) ?? 0n,
    })
  }
  return {
    refilledAt,
    shardCount: Number(whole(item, 'shard_count') ?? 1n),
    requests: Number(whole(item, 'rq') ?? 0n),
    bypass: whole(item, 'bypass'),
    refused: refusedIn(item),
    limits,
    marks,
    feedback,
  }
}

function refusedIn(item: Item): Map<string, bigint> {
  const refused = new Map([
    ['requests', whole(item, 'x') ?? 0n],
    ['by parent', whole(item, 'xp') ?? 0n],
  ])
  for (const attribute of Object.keys(item)) {
    const name = /^x_(.+)$/.exec(attribute)?.[1]
    if (name === undefined) continue
    const requests = whole(item, attribute) ?? 0n
    refused.set(`requests of ${name}`, requests)
    refused.set(`tokens of ${name}`, requests + (whole(item, `xt_${name}`) ?? 0n))
  }
  return refused
}

/** Refused requests that a write counted. A new shard, except the first, is a copy. */
export function refusedBy({shard, before, after}: ShardChange): Map<string, bigint> {
  const refused = new Map<string, bigint>()
  if (!before && shard > 0) return refused
  for (const [what, count] of after?.refused ?? []) {
    const delta = count - (before?.refused.get(what) ?? 0n)
    if (delta !== 0n) refused.set(what, delta)
  }
  return refused
}

/** Whether a request only counts refusals, whatever its outcome. */
export function isRefusalWrite(operation: Operation, input: object): boolean {
  const {ExpressionAttributeNames: used = {}} = input as {ExpressionAttributeNames?: Record<string, string>}
  const names = Object.values(used)
  return operation === 'UpdateItem' && names.includes('xl') && names.every(name => /^(wn_\d|x.*|lr|rf)$/.test(name))
}

/**
 * Whether a write batches a request with refunds: it requires that no switch is set, and the bucket that gave the
 * tokens.
 */
export function isBatched(operation: Operation, input: object): boolean {
  const {ConditionExpression = '', ExpressionAttributeNames: used = {}} = input as {
    ConditionExpression?: string
    ExpressionAttributeNames?: Record<string, string>
  }
  const demanded = (ConditionExpression.match(/#\w+/g) ?? []).map(placeholder => used[placeholder])
  return operation === 'UpdateItem' && demanded.includes('bi') && demanded.includes('disabled')
}

/** Net millitokens that a write consumed, per limit. Removed limits were consumed before. */
export function consumedBy({before, after}: ShardChange): Map<string, bigint> {
  const consumed = new Map<string, bigint>()
  for (const [name, limit] of after?.limits ?? []) {
    const delta = limit.consumed - (before?.limits.get(name)?.consumed ?? 0n)
    if (delta !== 0n) consumed.set(name, delta)
  }
  return consumed
}

/**
 * The same change without bypassed consumption, which was counted but taken from no balance. An admitting write is
 * bypassed if a stamp is set. A settlement may come later, on a bucket that had one (`wasBypassed`).
 */
export function withoutCounted(change: ShardChange, wasBypassed: boolean): ShardChange {
  const {before, after} = change
  if (!after || !wasBypassed) return change
  const isStamped = after.bypass !== undefined
  const isRestamped = isStamped && after.bypass !== before?.bypass
  const admits = after.requests > (before?.requests ?? 0)
  const limits = new Map(after.limits)
  for (const [name, now] of after.limits) {
    const then = before?.limits.get(name)
    const isUntouched = now.tokens === then?.tokens && (isStamped || !admits)
    if (isRestamped || isUntouched) limits.set(name, {...now, consumed: then?.consumed ?? 0n})
  }
  return {...change, after: {...after, limits}}
}

/** The cost of a request, by its response; `undefined` is the response of a refused one. */
export function costOf(
  operation: Operation,
  output: unknown,
  changes: readonly Change[],
): Omit<TableRequest, 'atMs' | 'process'> {
  const shards = changes.flatMap(change => shardChange(change) ?? [])
  if (isRead(operation)) return {operation, kind: 'read', tableUnits: 0, indexUnits: 0, shards}
  let [tableUnits, allUnits] = [0, 0]
  for (const {CapacityUnits = 0, Table} of capacityOf(output)) {
    tableUnits += Table?.CapacityUnits ?? 0
    allUnits += CapacityUnits
  }
  const kind = output === undefined ? 'refused' : 'applied'
  return {operation, kind, tableUnits, indexUnits: allUnits - tableUnits, shards}
}

function text(item: Item, name: string): string {
  const value = item[name]
  return value && 'S' in value ? value.S : ''
}

function whole(item: Item, name: string): bigint | undefined {
  const value = item[name]
  return value && 'N' in value && /^-?\d+$/.test(value.N) ? BigInt(value.N) : undefined
}

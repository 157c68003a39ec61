import {expiresAtSeconds, LIFETIME_MULTIPLIER, type LimitState} from '../../core/buckets/bucket.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import {STAMP_MS} from '../../core/limits/limit-kind.js'
import {toMilli} from '../../core/token-math.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {Item} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord, Residue} from '../../schema/bucket-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {familyOf, readGeneration} from '../../schema/family.js'
import {keys, wireKey} from '../../schema/keys.js'
import {requireNumber, validityOf} from '../buckets/kind-write.js'
import {ceilingOf, startingLimit} from '../buckets/plan.js'
import {createUpdate, newMark} from '../buckets/writes.js'
import type {Resolution} from '../limits/resolver.js'
import type {NamespaceTable} from '../table/table.js'
import {checkMissing, type TransactItem} from '../table/transact.js'
import {requireCountable, requireKnown, type TokensByLimit} from './record.js'

export interface NewBucket {
  readonly entity: string
  readonly resource: string
  readonly resolution: Resolution
  /** Epoch ms, before the configuration was read: a bypass is stamped from then on. */
  readonly readAtMs: number
  readonly owner: Item | undefined
  /** Left by refunds to a deleted bucket. */
  readonly residue: ReadonlyMap<string, Residue>
  readonly nowMs: number
}

/** The first write of a bucket, with quotas topped up. Other limits start full; without a quota nothing is written. */
export function createToppedUp(
  table: NamespaceTable,
  asked: TokensByLimit,
  input: NewBucket,
): {readonly items: TransactItem[]; readonly amounts: TokensByLimit} {
  const {entity, resource, resolution, readAtMs, owner, residue, nowMs} = input
  requireKnown([...asked.keys()], new Set(resolution.limits.map(({name}) => name)))
  const amounts = new Map([...asked.keys()].map(name => [name, 0]))
  const limits = new Map<string, LimitState>()
  for (const limit of resolution.limits) {
    const {name} = limit
    const tokens = asked.get(name) ?? 0
    const full = startingLimit(name, kindedRateOf(limit, nowMs), {shard: 0, shardCount: 1}, nowMs, tokens > 0)
    const left = residue.get(name)?.tokensMilli ?? 0n
    const started = {...full, tokensMilli: left > 0n ? full.tokensMilli - left : full.tokensMilli}
    const after = toppedUp(started, tokens)
    limits.set(name, after)
    requireCountable(name, ceilingOf(name, after, {shard: 0, shardCount: 1}, nowMs))
    if (full.kind?.quota && tokens > 0) amounts.set(name, tokens)
  }
  if ([...amounts.values()].every(tokens => tokens === 0)) return {items: [], amounts}
  const state = {refilledAtMs: nowMs, limits}
  const record: BucketRecord = {
    namespace: table.namespace,
    entity,
    resource,
    shard: 0,
    shardCount: 1,
    ...familyOf(owner && decodeEntity(owner), resolution.cascade?.cascade),
    ttlSeconds:
      resolution.source === 'entity' ? undefined : expiresAtSeconds(limits.values(), LIFETIME_MULTIPLIER, nowMs),
    state,
    validUntilMs: validityOf(state, nowMs),
    bypassUntilMs: resolution.access?.access === 'bypass' ? readAtMs + STAMP_MS : undefined,
  }
  const {ReturnValues: _, ...update} = createUpdate(table, record, {amounts: new Map(), requests: 0}, newMark(table))
  return {
    items: [{Update: update as NonNullable<TransactItem['Update']>}, requireOwner(table, entity, owner)],
    amounts,
  }
}

function toppedUp(limit: LimitState, tokens: number): LimitState {
  const {kind} = limit
  if (!kind?.quota || tokens === 0) return limit
  const topUpMilli = toMilli(tokens)
  return {...limit, tokensMilli: limit.tokensMilli + topUpMilli, kind: {...kind, quota: {...kind.quota, topUpMilli}}}
}

/** The entity was not moved, created or deleted since it was read. */
function requireOwner(table: NamespaceTable, entity: string, owner: Item | undefined): TransactItem {
  const key = keys.entity(table.namespace, entity)
  if (!owner) return checkMissing(table, key)
  const e = new ExpressionBuilder()
  e.condition(`attribute_exists(${e.name(attributes.key.partition)})`)
  for (const name of [attributes.entity.parent, attributes.entity.parentIncarnation, attributes.entity.createdAt]) {
    const value = owner[name]
    e.condition(value ? `${e.name(name)} = ${e.value(value)}` : `attribute_not_exists(${e.name(name)})`)
  }
  requireNumber(e, attributes.entity.parentGeneration, readGeneration(owner)?.moves)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(key), ...e.write()}}
}

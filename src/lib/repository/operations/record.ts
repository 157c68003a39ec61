import {InvalidInput, ZaelError} from '../../core/errors.js'
import {formatAmount} from '../../core/limits/amount-text.js'
import {isInFlight, type Limit, MAX_TOKENS} from '../../core/limits/limit.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {toMilli, toTokens} from '../../core/token-math.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type AttributeValue, type Item, n, readNumber, readString, s, texts} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {readMap} from '../../schema/json-attribute.js'
import {indexKeys, keys, parseItemKey, wireKey} from '../../schema/keys.js'
import type {BucketPlan, SeenBucket} from '../buckets/plan.js'
import type {UnitsByLimit} from '../limits/units.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

/** Whole tokens by limit. */
export type TokensByLimit = ReadonlyMap<string, number>

export type BucketOperation =
  | {readonly kind: 'top_up'; readonly amounts: TokensByLimit}
  /** Default: all limits. */
  | {readonly kind: 'reset'; readonly limits?: ReadonlySet<string> | undefined}

export type OperationKind = 'reset' | 'top_up'

/** An applied reset or top-up. Written together with its changes, so it exists once. */
export interface OperationRecord {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  /** The idempotency key. */
  readonly id: string
  readonly operation: OperationKind
  /** Identifies the call that applied it; `undefined` if unknown. */
  readonly writer: string | undefined
  /** The creation of the entity it belongs to: {@link incarnationIn}. */
  readonly incarnation: string
  readonly shards: number
  /** Added by a top-up or restored by a reset; negative if a shard held more than its part. */
  readonly amounts: TokensByLimit
  /** A top-up's requested amounts, or a partial reset's limits; absent for full resets and other clients' records. */
  readonly asked?: TokensByLimit | undefined
  /** Epoch seconds. */
  readonly ttlSeconds: number | undefined
}

/** Three days. Until then a repetition is recognised. */
export const OPERATION_LIFETIME_SECONDS = 3 * 86_400

/** Stands for an entity without a record; matches every creation. */
const NO_INCARNATION = '-'

const names = attributes.operation

export function encodeOperation(record: OperationRecord): Item {
  const {namespace, entity, resource, id} = record
  const item: Item = {
    ...wireKey(keys.operation(namespace, entity, resource, id)),
    [names.entity]: s(entity),
    [names.resource]: s(resource),
    [names.operation]: s(record.operation),
    [names.incarnation]: s(record.incarnation),
    [names.shards]: n(record.shards),
    [names.amounts]: tokensValue(record.amounts),
    ...texts(indexKeys.operationInNamespace(namespace, entity, resource, id)),
  }
  if (record.writer !== undefined) item[names.writer] = s(record.writer)
  if (record.asked !== undefined) item[names.asked] = tokensValue(record.asked)
  if (record.ttlSeconds !== undefined) item[names.expiresAt] = n(record.ttlSeconds)
  return item
}

export function decodeOperation(item: Item): OperationRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'operation') return undefined
  const {namespace, entity, resource, id} = key
  return {
    namespace,
    entity,
    resource,
    id,
    operation: readString(item, names.operation) === 'top_up' ? 'top_up' : 'reset',
    writer: readString(item, names.writer),
    incarnation: readString(item, names.incarnation) ?? NO_INCARNATION,
    shards: readNumber(item, names.shards) ?? 0,
    amounts: readTokens(item, names.amounts),
    ...(names.asked in item && {asked: readTokens(item, names.asked)}),
    ttlSeconds: readNumber(item, names.expiresAt),
  }
}

/** Identifies the creation of an entity, as all clients do. */
export function incarnationIn(entity: Item | undefined): string {
  if (!entity) return NO_INCARNATION
  const {parentIncarnation, createdAt} = attributes.entity
  return readString(entity, parentIncarnation) || readString(entity, createdAt) || NO_INCARNATION
}

function tokensValue(tokens: TokensByLimit): AttributeValue {
  return {M: Object.fromEntries([...tokens].map(([name, count]) => [name, n(count)]))}
}

function readTokens(item: Item, name: string): Map<string, number> {
  return new Map(Object.entries(readMap(item, name)).map(([limit, count]) => [limit, Number(count)]))
}

export interface OperationBasis {
  readonly shards: readonly SeenBucket[]
  /** The limits in force; `undefined`: nothing is configured, the stored ones apply. */
  readonly limits: readonly Limit[] | undefined
  readonly nowMs: number
}

export interface PlannedOperation {
  readonly plans: readonly BucketPlan[]
  readonly amounts: TokensByLimit
  /** Every limit is filled: tokens taken before are not refunded to the bucket. */
  readonly isWhole: boolean
}

export function limitNames(plans: readonly BucketPlan[]): Set<string> {
  const named = plans.flatMap(({changes}) =>
    [...changes].flatMap(([name, {kind}]) => (kind === 'remove' ? [] : [name])),
  )
  return new Set(named.filter(name => name !== WRITE_PRESSURE_LIMIT))
}

/** `limits`: the configured ones, among them in-flight limits, which have no tokens to add or restore. */
export function requireKnown(
  asked: readonly string[],
  names: ReadonlySet<string>,
  limits: readonly Limit[] | undefined,
): void {
  const held = limits?.find(limit => isInFlight(limit) && asked.includes(limit.name))
  if (held)
    throw new InvalidInput(
      'limit.in-flight',
      `The limit "${held.name}" is an in-flight limit: it has slots, no tokens.`,
      {
        hint: 'Omit it. Slots come back when leases end.',
        details: {limit: held.name},
      },
    )
  const unknown = asked.filter(name => !names.has(name))
  if (unknown.length === 0) return
  const known = [...names].sort().join(', ') || 'none'
  throw new InvalidInput('limit.unknown', `The bucket has no limit "${unknown.join('", "')}"; it has ${known}.`, {
    details: {unknown, known: [...names]},
  })
}

/** More millitokens over all shards could not be shown exactly. */
export function requireCountable(name: string, ceilingMilli: bigint): void {
  if (ceilingMilli <= toMilli(MAX_TOKENS)) return
  throw new InvalidInput(
    'bucket.amount',
    `This change would let "${name}" hold ${toTokens(ceilingMilli)} tokens. The maximum is ${MAX_TOKENS}.`,
  )
}

/** Of several operations with the same id, for the same creation of the entity, one is applied. */
export interface OperationId {
  readonly entity: string
  readonly resource: string
  readonly id: string
  readonly incarnation: string
}

export function operationPut(table: NamespaceTable, record: OperationRecord): TransactItem {
  const e = new ExpressionBuilder()
  const isMissing = `attribute_not_exists(${e.name(attributes.key.partition)})`
  const {incarnation} = record
  // Planted fault: a top-up is repeated under its key
  if (incarnation === NO_INCARNATION) e.condition(isMissing)
  else {
    // A record of a deleted entity with the same name does not count, unless it may belong to this one.
    const stored = e.name(attributes.operation.incarnation)
    const isOther = [incarnation, NO_INCARNATION].map(each => `${stored} <> ${e.value(s(each))}`).join(' AND ')
    e.condition(`${isMissing} OR (attribute_exists(${stored}) AND ${isOther})`)
  }
  return {Put: {TableName: table.name, Item: encodeOperation(record), ...e.write()}}
}

export async function findOperation(
  table: NamespaceTable,
  {entity, resource, id, incarnation}: OperationId,
): Promise<OperationRecord | undefined> {
  const item = await getItem(table, keys.operation(table.namespace, entity, resource, id))
  const record = item && decodeOperation(item)
  if (!record) return undefined
  const isOther = incarnation !== NO_INCARNATION && record.incarnation !== NO_INCARNATION
  return isOther && record.incarnation !== incarnation ? undefined : record
}

export function askedOf(operation: BucketOperation): TokensByLimit | undefined {
  if (operation.kind === 'top_up') return operation.amounts
  return operation.limits && new Map([...operation.limits].map(name => [name, 0]))
}

export function requireSameOperation(record: OperationRecord, operation: BucketOperation, units: UnitsByLimit): void {
  const before = describe(record.operation, record.asked ?? record.amounts, units)
  if (record.operation !== operation.kind) throw otherOperation(record, before)
  const names = new Set(record.amounts.keys())
  if (operation.kind === 'reset') {
    const {limits} = operation
    // A reset of all limits stores no names: there may be others by now.
    if (!limits && record.asked) throw otherOperation(record, before)
    if (limits && !(limits.size === names.size && [...limits].every(name => names.has(name))))
      throw otherOperation(record, before)
    return
  }
  const isSame = ([name, tokens]: [string, number]) => {
    const asked = record.asked?.get(name)
    if (asked !== undefined) return asked === tokens
    // Other clients store only the amount added, which is less than asked if a limit had no room.
    const added = record.amounts.get(name)
    return added !== undefined && added <= tokens
  }
  const {amounts} = operation
  if (amounts.size !== names.size || ![...amounts].every(isSame)) throw otherOperation(record, before)
}

function describe(kind: OperationKind, tokens: TokensByLimit, units: UnitsByLimit): string {
  if (kind === 'reset') return `a reset of ${[...tokens.keys()].join(', ')}`
  return `a top-up of ${[...tokens].map(([name, count]) => `${name}=${formatAmount(count, units.get(name))}`).join(' ')}`
}

function otherOperation({entity, resource, id}: OperationRecord, before: string): ZaelError {
  const message = `The idempotency key "${id}" was already used for ${before} of "${entity}" for "${resource}".`
  return new ZaelError('conflict', 'bucket.key-used', message, {
    hint: 'Nothing was changed. Use another key for another change.',
    details: {entity, resource, idempotencyKey: id},
  })
}

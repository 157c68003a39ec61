import {type BucketState, isAheadOfTime} from '../../core/buckets/bucket.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import {type Limit, tokenLimits} from '../../core/limits/limit.js'
import {isSameLimit, type KindedRate} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {formatCount, formatPlural} from '../../core/text/text.js'
import {isSameRate, type Rate, toTokens} from '../../core/token-math.js'
import {MAX_SHARDS} from '../../repository/buckets/buckets.js'
import {planBucket} from '../../repository/buckets/plan.js'
import {type Rewrite, rewriteStoredBucket} from '../../repository/buckets/rewrite.js'
import {fillMissingShards, readShards} from '../../repository/buckets/split.js'
import {alignWith} from '../../repository/limits/limit-sync.js'
import type {Resolution} from '../../repository/limits/resolver.js'
import {bool, type Item, isoMilliseconds, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, decodeBucket, hasReadableRemainders, type StoredBucket} from '../../schema/bucket-record.js'
import {type Family, familyOf, generationAttributes, isSameFamily} from '../../schema/family.js'
import {slotAttribute} from '../../schema/slot-attributes.js'
import {checkSlotHolders} from './check-holders.js'
import {checkCounters} from './check-usage.js'
import {deleteWithout, isJudged, repairAttributes, type VerifyContext} from './context.js'
import type {ItemFinding} from './finding.js'

const names = attributes.bucket

export async function checkBucket(context: VerifyContext, item: Item): Promise<ItemFinding[]> {
  const stored = decodeBucket(item)
  if (!stored) return []
  const {table, nowMs} = context
  if (stored.kind === 'ghost') {
    const reason = 'A refund created it after the bucket was deleted; it holds counters and no limits.'
    return [{kind: 'ghost', subject: '', reason, repair: () => deleteWithout(table, item, names.refilledAt)}]
  }
  const {record} = stored
  if (!isJudged(record, context.sinceMs, nowMs)) return []
  const findings = [
    ...ofItem(context, item, stored, nowMs),
    ...checkLimits(context, stored),
    ...checkParent(context, item, stored),
    ...(await checkShards(context, stored)),
  ]
  if (record.shard === 0) {
    findings.push(...(await checkCounters(context, item, record)), ...(await checkSlots(context, item, record)))
  }
  return findings.map(finding => ({since: isoMilliseconds(record.state.refilledAtMs), ...finding}))
}

type Live = Extract<StoredBucket, {kind: 'bucket'}>

function* ofItem({table}: VerifyContext, item: Item, stored: Live, nowMs: number): Generator<ItemFinding> {
  const {record, incomplete} = stored
  const {namespace, state} = record
  if (isAheadOfTime(state, nowMs) && !record.unsupported) {
    const reason = `${aheadOfTime(state)}, which is in the future.`
    const setBack: Rewrite = (seen, atMs) => ({plan: planBucket(seen, atMs), write: {amounts: new Map()}})
    const repair = async () => (await rewriteStoredBucket({...table, namespace}, stored, setBack)) === 'written'
    yield {kind: 'refill', subject: '', reason, repair, since: undefined}
  }
  if (!hasReadableRemainders(item)) {
    const repair = () => repairAttributes(table, item, {[names.remainders]: undefined})
    yield {kind: 'remainder', subject: '', reason: 'Its token fractions cannot be read and count as zero.', repair}
  }
  for (const name of incomplete.keys()) {
    yield {kind: 'malformed', subject: name, reason: `${name} has counters without a capacity, an amount or a period.`}
  }
}

/** Names a session only if it is further ahead than the refill instant. */
function aheadOfTime({refilledAtMs, limits}: BucketState): string {
  const [name, startMs] = [...limits]
    .map(([each, {kind}]) => [each, kind?.quota?.session?.startMs ?? 0] as const)
    .reduce((latest, each) => (each[1] > latest[1] ? each : latest), ['', 0] as const)
  return startMs > refilledAtMs
    ? `The session of ${name} starts at ${isoMilliseconds(startMs)}`
    : `Its refill time is ${isoMilliseconds(refilledAtMs)}`
}

function checkLimits(context: VerifyContext, stored: Live): ItemFinding[] {
  const {record, incomplete} = stored
  const {namespace, state} = record
  const resolution = context.referred.limits(record)
  if (resolution.source === undefined) return context.isMigrated ? limitless(context, record, resolution) : []
  // Do not judge limits that zael does not support.
  if (resolution.unsupported || record.unsupported) return []
  const wanted = new Map(tokenLimits(resolution.limits).map(limit => [limit.name, limit]))
  const present = [...state.limits.keys()].filter(name => name !== WRITE_PRESSURE_LIMIT)
  const differences = [...new Set([...wanted.keys(), ...present])].sort().flatMap(name => {
    const difference = incomplete.has(name) ? undefined : differenceOf(state.limits.get(name), wanted.get(name))
    return difference === undefined ? [] : [{name, difference}]
  })
  const repair = async () =>
    (await rewriteStoredBucket(context.in(namespace), stored, (seen, atMs) => alignWith(resolution, seen, atMs))) ===
    'written'
  return differences.map(({name, difference}) => ({
    kind: 'limits',
    subject: name,
    reason: `${name} ${difference} (${resolution.source?.replace('_', ' ')} level).`,
    repair,
  }))
}

/** Only in migrated tables: releases up to 0.6 took limits per request. Elsewhere clients may supply their own. */
function limitless({namespaces}: VerifyContext, {namespace, shard}: BucketRecord, {access}: Resolution): ItemFinding[] {
  const isActive = namespaces.get(namespace)?.status === 'active'
  if (!isActive || shard > 0 || access?.access === 'disabled') return []
  const remedy = 'zael migrate run --limits-from-buckets configures the limits of the bucket'
  return [{kind: 'limitless', subject: '', reason: `No limits are configured for it, so requests fail; ${remedy}.`}]
}

function differenceOf(stored: KindedRate | undefined, limit: Limit | undefined): string | undefined {
  if (!limit) return 'is in the bucket but not configured'
  if (!stored) return 'is configured but not in the bucket'
  const wanted = kindedRateOf(limit, 0)
  if (!isSameRate(stored, wanted)) return `has ${spell(stored)}, the configuration has ${spell(wanted)}`
  return isSameLimit(stored, wanted) ? undefined : 'differs from the configuration in its resets, schedule or softness'
}

const spell = ({capacityMilli, refillAmountMilli, refillPeriodMs}: Rate): string =>
  `capacity ${tokens(capacityMilli)} and ${tokens(refillAmountMilli)} per ${refillPeriodMs / 1000} s`

function checkParent({table, referred}: VerifyContext, item: Item, {record}: Live): ItemFinding[] {
  const owner = referred.entity(record.namespace, record.entity)
  const wanted = familyOf(owner, referred.limits(record).cascade?.cascade)
  if (isSameFamily(record, wanted)) return []
  const {parent, cascade, parentGeneration} = wanted
  const repair = () =>
    repairAttributes(table, item, {
      [names.parent]: parent === undefined ? undefined : s(parent),
      [names.cascade]: bool(cascade),
      ...(parentGeneration && generationAttributes(parentGeneration)),
    })
  const reason = `The bucket has ${spellParent(record)}; its entity has ${owner ? spellParent(wanted) : 'no record, so it has no parent'}.`
  return [{kind: 'parent', subject: '', reason, repair}]
}

const spellParent = ({parent, cascade}: Family): string =>
  parent === undefined ? 'no parent' : `parent ${parent}${cascade ? '' : ', which is not charged'}`

async function checkShards(context: VerifyContext, {record}: Live): Promise<ItemFinding[]> {
  const {namespace, entity, resource, shard, shardCount} = record
  const table = context.in(namespace)
  if (shardCount > MAX_SHARDS) {
    const reason = `It claims ${formatCount(shardCount)} shards; the maximum is ${formatCount(MAX_SHARDS)}.`
    return [{kind: 'shards', subject: 'count', reason}]
  }
  if (shard > 0) {
    const count = (await readShards(table, entity, resource, 1)).get(0)?.shardCount
    if (count !== undefined && shard < count) return []
    const reason =
      count === undefined
        ? 'Shard 0 is missing.'
        : `The bucket has ${formatPlural(count, 'shard')}, and this is number ${shard}.`
    return [{kind: 'shards', subject: 'surplus', reason: `${reason} The balance of this shard is ignored.`}]
  }
  if (shardCount <= 1) return []
  const shards = await readShards(table, entity, resource, shardCount)
  const numbers = Array.from({length: shardCount}, (_each, at) => at)
  // Unused shards expire, except under limits of one entity, and come back when needed.
  const {source} = context.referred.limits(record)
  const missing = source === 'entity' ? numbers.filter(at => !shards.has(at)) : []
  const differing = numbers.filter(at => shards.has(at) && shards.get(at)?.shardCount !== shardCount)
  const repair = async () =>
    !record.unsupported && (await fillMissingShards(table, entity, resource, MAX_SHARDS)) === shardCount
  const findings: ItemFinding[] = []
  if (missing.length > 0) {
    const reason = `Missing shards (of ${shardCount}): ${missing.join(', ')}.`
    findings.push({kind: 'shards', subject: 'missing', reason, repair})
  }
  if (differing.length > 0) {
    const others = differing.length === 1 ? `shard ${differing[0]} counts` : `shards ${differing.join(', ')} count`
    const reason = `Shard 0 counts ${shardCount} shards; ${others} another number.`
    findings.push({kind: 'shards', subject: 'count', reason, repair})
  }
  return findings
}

const tokens = (milli: bigint): string => formatCount(toTokens(milli))

/** Of shard 0, which has the slots of all shards. */
async function checkSlots(context: VerifyContext, item: Item, record: BucketRecord): Promise<ItemFinding[]> {
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
  return [...findings, ...(await checkSlotHolders(table, record, context.nowMs))]
}

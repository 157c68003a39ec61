import {floorDivide, MILLI} from '../core/token-math.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../dynamo/errors.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {pause, retrying} from '../dynamo/retry.js'
import type {OperationInput} from '../dynamo/transport.js'
import type {Table} from '../repository/table/table.js'
import {n, s} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {keys, wireKey} from '../schema/keys.js'
import {
  encodeFractions,
  isUsageCounter,
  readProgress,
  type UsageProgress,
  usageIdentity,
  usageMark,
} from '../schema/usage-record.js'
import type {BucketChange} from './bucket-change.js'
import type {UsageTally} from './usage-tally.js'

/** Tries altogether on a record that somebody else keeps writing. */
const ATTEMPTS = 10

const NOTHING: UsageProgress = readProgress()

/** How long usage is kept. */
export interface UsageRetention {
  /** Epoch seconds at which a record that is created now expires; `undefined`: never. */
  readonly ttlSeconds: number | undefined
}

/**
 * Adds a tally to its usage record, each change exactly once. The first try reads nothing: it is applied if the record
 * has counted no change as late as these and holds no fraction. Otherwise the refusal shows the record, and what it has
 * counted already is left out. A repetition after a lost answer is refused by the marks it has set itself.
 */
export async function addUsage(
  table: Table,
  tally: UsageTally,
  retention: UsageRetention,
): Promise<'counted' | 'known'> {
  let seen: UsageProgress | undefined
  for (let attempt = 0; ; attempt++) {
    const pending = notYetCounted(tally, seen ?? NOTHING)
    if (pending.size === 0) return 'known'
    const update = usageUpdate(table, tally, pending, seen, retention)
    try {
      await retrying(() => table.transport.send('UpdateItem', update), {
        ...table.backoff,
        retryable: isRetryableWhenIdempotent,
      })
      return 'counted'
    } catch (error) {
      if (!(error instanceof ConditionFailed) || attempt + 1 >= ATTEMPTS) throw error
      seen = readProgress(error.oldItem)
    }
    if (attempt > 0) await pause(attempt, table.backoff)
  }
}

type Changes = ReadonlyMap<number, readonly BucketChange[]>

function notYetCounted({changes}: UsageTally, {marks}: UsageProgress): Changes {
  const pending = new Map<number, readonly BucketChange[]>()
  for (const [shard, ofShard] of changes) {
    const mark = marks.get(shard)
    const later = mark === undefined ? ofShard : ofShard.filter(({position}) => position > mark)
    if (later.length > 0) pending.set(shard, later)
  }
  return pending
}

function usageUpdate(
  table: Table,
  tally: UsageTally,
  pending: Changes,
  seen: UsageProgress | undefined,
  {ttlSeconds}: UsageRetention,
): OperationInput<'UpdateItem'> {
  const {namespace, entity, resource, window, start} = tally
  const e = new ExpressionBuilder()
  const identity = usageIdentity({namespace, entity, resource, window, start, ttlSeconds})
  for (const [attribute, value] of Object.entries(identity)) e.setIfMissing(attribute, value)
  for (const [shard, changes] of pending) moveMark(e, shard, changes, seen)
  addCounts(e, pending, seen ?? NOTHING)
  const fractions = e.name(attributes.usage.fractions)
  const before = encodeFractions((seen ?? NOTHING).fractions)
  e.condition(before === undefined ? `attribute_not_exists(${fractions})` : `${fractions} = ${e.value(s(before))}`)
  return {
    TableName: table.name,
    Key: wireKey(keys.usage(namespace, entity, resource, window, start)),
    ...e.update(),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  }
}

/** Blindly: no change as late as the first of these may be counted. Having seen the mark: it must still be the same. */
function moveMark(
  e: ExpressionBuilder,
  shard: number,
  changes: readonly BucketChange[],
  seen: UsageProgress | undefined,
): void {
  const [first, last] = [changes[0], changes.at(-1)] as [BucketChange, BucketChange]
  const mark = e.name(usageMark(shard))
  const known = seen?.marks.get(shard)
  if (known !== undefined) e.condition(`${mark} = ${e.value(s(known))}`)
  else if (seen) e.condition(`attribute_not_exists(${mark})`)
  else e.condition(`attribute_not_exists(${mark}) OR ${mark} < ${e.value(s(first.position))}`)
  e.set(usageMark(shard), s(last.position))
}

/** Whole tokens go into the counters, rounded down; what is left of each limit waits for more. */
function addCounts(e: ExpressionBuilder, pending: Changes, {fractions}: UsageProgress): void {
  const totals = new Map(fractions)
  let admitted = 0
  for (const change of [...pending.values()].flat()) {
    admitted += change.admitted
    for (const [limit, milli] of change.consumedMilli) {
      if (isUsageCounter(limit)) totals.set(limit, (totals.get(limit) ?? 0n) + milli)
    }
  }
  const rest = new Map<string, bigint>()
  for (const [limit, milli] of totals) {
    const tokens = floorDivide(milli, MILLI)
    rest.set(limit, milli - tokens * MILLI)
    if (tokens !== 0n) e.add(limit, n(tokens))
  }
  e.add(attributes.usage.totalEvents, n(admitted))
  const after = encodeFractions(rest)
  if (after !== undefined) e.set(attributes.usage.fractions, s(after))
  else if (fractions.size > 0) e.remove(attributes.usage.fractions)
}

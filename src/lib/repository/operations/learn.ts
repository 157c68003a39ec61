import type {Amounts} from '../../core/bucket.js'
import {type Consumption, checkConsumption} from '../../core/consumption.js'
import {checkMs} from '../../core/duration.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {type Rewrite, rewriteStoredBucket} from '../buckets/rewrite.js'
import {readSeenShards} from '../buckets/split.js'
import type {NamespaceTable} from '../table/table.js'
import {bucketContended} from './errors.js'
import {planLesson, type ToldBalances, toldToShards} from './lesson-plan.js'

/** What somebody who counts the same requests has told, such as a provider in the fields of its answers. */
export interface Lesson<Name extends string = string> {
  readonly entity: string
  readonly resource: string
  /** Whole tokens that are left, by limit. */
  readonly left?: Consumption<Name>
  /** A request that was refused: what it asked for of the limits that were too small, and when it would be admitted. */
  readonly refused?: {
    readonly consume: Consumption<Name>
    /** From now, in ms. More than an hour counts as an hour: a wrong number must not stop everybody for days. */
    readonly retryAfterMs: number
  }
}

/** What a lesson has changed. */
export interface LearntLimits<Name extends string = string> {
  /** Limits of which the bucket held more than it was told; none where the lesson was known. */
  readonly lowered: readonly Name[]
}

/** An hour in ms. */
const LONGEST_WAIT_MS = 3_600_000

/**
 * Lowers the balances of a bucket to what was told, one conditional write per shard that holds more; nothing is ever
 * raised, and nothing is written where nothing is too high. The lesser of two balances is the same whichever comes first
 * and however often, so repetitions and concurrent lessons do no harm.
 */
export async function learnBucket<Name extends string>(
  table: NamespaceTable,
  lesson: Lesson<Name>,
  {mostShards}: {readonly mostShards: number},
): Promise<LearntLimits<Name>> {
  const entity = checkEntityId(lesson.entity)
  const resource = checkResourceName(lesson.resource)
  const told = toldBy(lesson, table.clock())
  const first = (await readSeenShards(table, entity, resource, [0])).get(0)
  if (!first) return {lowered: []}
  const count = Math.min(first.record.shardCount, mostShards)
  const numbers = Array.from({length: count}, (_, shard) => shard)
  const shards = count === 1 ? [first] : [...(await readSeenShards(table, entity, resource, numbers)).values()]
  const parts = toldToShards(told, shards, table.clock())
  const lowered = new Set<string>()
  const lower = async (at: number): Promise<void> => {
    let names: readonly string[] = []
    const rewrite: Rewrite = (seen, nowMs) => {
      const planned = planLesson(seen, nowMs, parts[at] as ToldBalances, told)
      names = planned?.names ?? []
      return planned?.decision
    }
    const outcome = await rewriteStoredBucket(table, {kind: 'bucket', ...(shards[at] as (typeof shards)[0])}, rewrite)
    if (outcome === 'contended') throw bucketContended({entity, resource})
    if (outcome === 'written') for (const name of names) lowered.add(name)
  }
  await Promise.all(shards.map((_, at) => lower(at)))
  return {lowered: [...lowered].sort() as Name[]}
}

function toldBy<Name extends string>({left, refused}: Lesson<Name>, nowMs: number): ToldBalances {
  const waitMs = Math.min(Math.ceil(checkMs('retryAfterMs', refused?.retryAfterMs) ?? 0), LONGEST_WAIT_MS)
  return {
    left: amountsWithZeros((left ?? {}) as Consumption),
    refused: refused && {amounts: checkConsumption(refused.consume as Consumption), clearsAtMs: nowMs + waitMs},
  }
}

/** That nothing is left of a limit is worth knowing, other than that nothing is asked of it. */
function amountsWithZeros(tokens: Consumption): Amounts {
  const amounts = checkConsumption(tokens)
  for (const name of Object.keys(tokens)) if (!amounts.has(name)) amounts.set(name, 0n)
  return amounts
}

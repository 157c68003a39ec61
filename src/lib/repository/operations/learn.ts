import type {Amounts} from '../../core/buckets/bucket.js'
import {type Consumption, checkConsumption} from '../../core/limits/limit.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {checkMs} from '../../core/text/duration.js'
import type {SeenBucket} from '../buckets/plan.js'
import {type Rewrite, rewriteStoredBucket} from '../buckets/rewrite.js'
import {readSeenShards} from '../buckets/split.js'
import type {NamespaceTable} from '../table/table.js'
import {bucketContended} from './errors.js'
import {planLesson, type ToldBalances, toldToShards} from './lesson-plan.js'

/** Feedback from an external limiter of the same requests, such as a provider's response headers. */
export interface Lesson<Name extends string = string> {
  readonly entity: string
  readonly resource: string
  /** Whole tokens left, by limit. */
  readonly left?: Consumption<Name>
  /** Age of `left` in ms: tokens refilled since are added. Default: 0. */
  readonly ageMs?: number
  /** A refused request, and when it would be admitted. */
  readonly refused?: {
    /** Amounts it asked of the exceeded limits, minus what the bucket is still charged for it. */
    readonly consume: Consumption<Name>
    /** From now, in ms. Capped at an hour, so that a wrong number cannot block everyone for days. */
    readonly retryAfterMs: number
  }
}

/** The effect of provider feedback. */
export interface LearntLimits<Name extends string = string> {
  /** Limits of which the bucket held more than reported; empty if the feedback was known. */
  readonly lowered: readonly Name[]
}

const LONGEST_WAIT_MS = 3_600_000

/** A bucket is split a few times at most while feedback is written. */
const MOST_TRIES = 5

/** Only lowers balances, with one conditional write per shard; a minimum makes repetitions and races harmless. */
export async function learnBucket<Name extends string>(
  table: NamespaceTable,
  lesson: Lesson<Name>,
  options: {readonly mostShards: number},
): Promise<LearntLimits<Name>> {
  const entity = checkEntityId(lesson.entity)
  const resource = checkResourceName(lesson.resource)
  const told = toldBy(lesson, table.clock())
  const lowered = new Set<string>()
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    if (await lowerShards(table, {entity, resource}, told, options.mostShards, lowered))
      return {lowered: [...lowered].sort() as Name[]}
  }
  throw bucketContended({entity, resource})
}

/** False if a shard was split before its write: a split moves tokens. */
async function lowerShards(
  table: NamespaceTable,
  {entity, resource}: Pick<Lesson, 'entity' | 'resource'>,
  told: ToldBalances,
  mostShards: number,
  lowered: Set<string>,
): Promise<boolean> {
  const first = (await readSeenShards(table, entity, resource, [0])).get(0)
  if (!first) return true
  const count = Math.min(first.record.shardCount, mostShards)
  const numbers = Array.from({length: count}, (_, shard) => shard)
  const shards = count === 1 ? [first] : [...(await readSeenShards(table, entity, resource, numbers)).values()]
  const parts = toldToShards(told, shards, table.clock())
  let isUnsplit = true
  const lower = async (seen: SeenBucket, part: ToldBalances): Promise<void> => {
    let names: readonly string[] = []
    const rewrite: Rewrite = (now, nowMs) => {
      isUnsplit &&= now.record.shardCount === seen.record.shardCount
      const planned = isUnsplit ? planLesson(now, nowMs, part, told) : undefined
      names = planned?.names ?? []
      // Planted fault: a lesson is forgotten
      return planned?.decision
    }
    const outcome = await rewriteStoredBucket(table, {kind: 'bucket', ...seen}, rewrite)
    if (outcome === 'contended') throw bucketContended({entity, resource})
    if (outcome === 'written') for (const name of names) lowered.add(name)
  }
  await Promise.all(shards.map((seen, at) => lower(seen, parts[at] as ToldBalances)))
  return isUnsplit
}

function toldBy<Name extends string>({left, ageMs, refused}: Lesson<Name>, nowMs: number): ToldBalances {
  const waitMs = Math.min(Math.ceil(checkMs('retryAfterMs', refused?.retryAfterMs) ?? 0), LONGEST_WAIT_MS)
  return {
    left: amountsWithZeros(left ?? {}),
    ageMs: Math.min(Math.ceil(checkMs('ageMs', ageMs) ?? 0), LONGEST_WAIT_MS),
    refused: refused && {amounts: amountsWithZeros(refused.consume), clearsAtMs: nowMs + waitMs},
  }
}

/** Keeps zeros: nothing left of a limit differs from nothing asked of it. */
function amountsWithZeros(told: object): Amounts {
  const tokens = told as Consumption
  const amounts = checkConsumption(tokens)
  for (const name of Object.keys(tokens)) if (!amounts.has(name)) amounts.set(name, 0n)
  return amounts
}

import type {Amounts, LimitState} from '../core/bucket.js'
import {type Limit, rateOf} from '../core/limit.js'
import {toTokens} from '../core/token-math.js'
import {planBucket, type SeenBucket} from '../repository/buckets/plan.js'
import {readRealShards} from '../repository/buckets/split.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {AppliedLimits} from './context.js'
import {type RefusalStatus, unknownLimit} from './errors.js'
import type {NamespaceLimiter} from './namespace-limiter.js'
import {explainRefusal} from './refusal.js'
import {availableTogether} from './shard-room.js'

/** What an acquire would say. */
export interface CheckResult {
  readonly admitted: boolean
  /** 0 when admitted, `Infinity` when never. */
  readonly retryAfterMs: number
  readonly statuses: readonly RefusalStatus[]
}

/** A look at a bucket and its parent's, from which several questions can be answered. */
export interface Availability {
  available(): Record<string, number>
  check(amounts: Amounts): CheckResult
}

interface Level {
  readonly level: RefusalStatus['level']
  readonly applied: AppliedLimits
  /** All shards, brought up to now and in line with the limits in force. */
  readonly records: readonly BucketRecord[]
}

/** Reads all shards of an entity's bucket and of the parent it shares with; writes nothing. */
export async function readAvailability(
  session: NamespaceLimiter,
  entity: string,
  resource: string,
): Promise<Availability> {
  const {cascade, parent} = await session.familyOf(entity)
  const nowMs = session.table.clock()
  const levels = await Promise.all([
    readLevel(session, entity, resource, 'entity', nowMs),
    ...(cascade && parent !== undefined ? [readLevel(session, parent, resource, 'parent', nowMs)] : []),
  ])
  return {
    available: () => {
      const [own] = levels
      const tokens = new Map<string, number>()
      for (const {name} of own?.applied.limits ?? []) {
        const holding = levels.filter(({applied}) => applied.limits.some(limit => limit.name === name))
        tokens.set(name, Math.min(...holding.map(({records}) => heldTokens(records, name))))
      }
      return Object.fromEntries(tokens)
    },
    check: amounts => {
      const known = levels[0]?.applied.limits.map(({name}) => name) ?? []
      checkKnown(entity, resource, amounts, known)
      const statuses = levels.flatMap(({records, applied, level}) => {
        const asked = new Map(
          [...amounts].filter(([name]) => level === 'entity' || applied.limits.some(limit => limit.name === name)),
        )
        return explainRefusal({records, amounts: asked, nowMs, source: applied.source}, level).statuses
      })
      return {
        admitted: statuses.every(status => !status.exceeded),
        retryAfterMs: Math.max(0, ...statuses.map(status => status.retryAfterMs)),
        statuses,
      }
    },
  }
}

async function readLevel(
  session: NamespaceLimiter,
  entity: string,
  resource: string,
  level: Level['level'],
  nowMs: number,
): Promise<Level> {
  const {table} = session
  const applied = await session.limitsOf(entity, resource)
  const shards = await readRealShards(table, entity, resource, session.admission.settings.maxShards)
  const records = [...shards.values()].map(record =>
    currentRecord({record, incomplete: new Map()}, nowMs, applied.limits),
  )
  return {
    level,
    applied,
    records:
      records.length > 0 ? records : [untouched({namespace: table.namespace, entity, resource}, applied.limits, nowMs)],
  }
}

/** A stored shard brought up to now and in line with the limits in force. */
export function currentRecord(seen: SeenBucket, nowMs: number, inForce: readonly Limit[]): BucketRecord {
  const {refilledAtMs, changes} = planBucket(seen, nowMs, inForce)
  const limits = new Map(
    [...changes].flatMap(([name, change]) => (change.kind === 'remove' ? [] : [[name, change.after] as const])),
  )
  return {...seen.record, state: {refilledAtMs, limits}}
}

/** Asking for a limit that does not apply is a mistake, not a refusal. */
export function checkKnown(entity: string, resource: string, amounts: Amounts, known: readonly string[]): void {
  const unknown = [...amounts.keys()].filter(name => !known.includes(name))
  if (unknown.length > 0) throw unknownLimit(entity, resource, unknown, known)
}

/** A bucket that nobody has used yet is full. */
export function untouched(
  whose: Pick<BucketRecord, 'namespace' | 'entity' | 'resource'>,
  inForce: readonly Limit[],
  nowMs: number,
): BucketRecord {
  const limits = new Map<string, LimitState>()
  for (const limit of inForce) {
    const rate = rateOf(limit)
    limits.set(limit.name, {...rate, tokensMilli: rate.capacityMilli, remainder: 0n, consumedMilli: 0n})
  }
  const state = {refilledAtMs: nowMs, limits}
  return {...whose, shard: 0, shardCount: 1, cascade: false, parent: undefined, ttlSeconds: undefined, state}
}

function heldTokens(records: readonly BucketRecord[], name: string): number {
  return toTokens(
    availableTogether(
      records.map(({state}) => state),
      name,
    ),
  )
}

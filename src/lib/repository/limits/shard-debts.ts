import {divideByRoom} from '../../core/buckets/shards.js'
import {TransactionCancelled} from '../../dynamo/errors.js'
import {Buckets} from '../buckets/buckets.js'
import {type BucketPlan, planBucket} from '../buckets/plan.js'
import type {RewriteOutcome} from '../buckets/rewrite.js'
import {newMark, plannedUpdate} from '../buckets/writes.js'
import type {NamespaceTable} from '../table/table.js'
import {transact, updateItem} from '../table/transact.js'

/** Under contention. The first half requires that nothing is taken from the bucket meanwhile. */
const ATTEMPTS = 20

/** A transaction has at most 100 items. */
const MOST_SHARDS = 100

/**
 * A lowered quota leaves a shard in debt that used more than its new part. The other shards pay, because together they
 * would give more than is left of the allowance.
 */
export async function payShardDebts(
  table: NamespaceTable,
  {entity, resource}: {readonly entity: string; readonly resource: string},
  signal?: AbortSignal,
): Promise<RewriteOutcome> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const bucket = await new Buckets(table).find(entity, resource, {signal})
    const shards = (bucket?.shards ?? []).flatMap(shard => (shard.kind === 'bucket' ? [shard] : []))
    const plans = settled(shards.map(seen => planBucket(seen, table.clock())))
    if (plans.length === 0 || plans.length > MOST_SHARDS) return 'unchanged'
    const write = {amounts: new Map(), isOperation: true, isExact: attempt < ATTEMPTS / 2}
    const items = plans.map(plan => updateItem(plannedUpdate(table, plan, write, newMark(table))))
    try {
      await transact(table, items, {signal})
      return 'written'
    } catch (error) {
      if (!(error instanceof TransactionCancelled)) throw error
    }
  }
  return 'contended'
}

/** The plans that change, with the debts of each quota moved to shards that can pay. */
function settled(plans: readonly BucketPlan[]): BucketPlan[] {
  const moved = plans.map(() => new Map<string, bigint>())
  for (const name of new Set(plans.flatMap(({changes}) => [...changes.keys()]))) {
    const balances = plans.map(({changes}) => {
      const change = changes.get(name)
      return change?.kind === 'keep' && change.after.kind?.quota ? change.after.tokensMilli : 0n
    })
    const held = balances.map(milli => (milli > 0n ? milli : 0n))
    const owed = balances.map(milli => (milli < 0n ? -milli : 0n))
    const paid = divideByRoom(sumOf(owed), held)
    const received = divideByRoom(sumOf(paid), owed)
    for (const [at, milli] of received.entries()) moved[at]?.set(name, milli - (paid[at] ?? 0n))
  }
  return plans.flatMap((plan, at) => {
    const moves = [...(moved[at] ?? [])].filter(([, milli]) => milli !== 0n)
    if (moves.length === 0) return []
    const changes = new Map(plan.changes)
    for (const [name, milli] of moves) {
      const change = changes.get(name)
      if (!change) continue
      const after = {...change.after, tokensMilli: change.after.tokensMilli + milli}
      changes.set(name, {...change, after, creditMilli: change.creditMilli + milli})
    }
    return [{...plan, changes}]
  })
}

const sumOf = (amounts: readonly bigint[]): bigint => amounts.reduce((a, b) => a + b, 0n)

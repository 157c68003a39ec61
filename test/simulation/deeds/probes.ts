import {RateLimitExceeded, RequestTooLarge} from '../../../src/lib/limiter/errors.js'
import {RESOURCE} from '../scenario.js'
import {bucketId} from '../world/table-writes.js'
import type {World} from '../world/world.js'
import type {Stage} from './stage.js'

/** Clocks within these bounds may delay a refill by so much, in ms. */
const USUAL_SKEW_MS = 25_000

/** L6: what is published as available is never more than there can be. */
export async function readAvailable(stage: Stage, by: number, entity: string): Promise<void> {
  const {world, oracles} = stage
  const bucket = bucketId(world.namespace, entity, RESOURCE)
  const process = world.processes[by]
  const operation = stage.begin(by, `available ${entity}`)
  const startMs = world.time.nowMs
  try {
    const told = await process?.limiter.available({entity, resource: RESOURCE})
    const isQuiet = !(oracles.activity.get(bucket) ?? []).some(({atMs}) => atMs >= startMs - 1000)
    const isSettled = world.time.nowMs - oracles.timeline.since(bucket) > 60_000
    for (const [name, tokens] of Object.entries(told ?? {})) {
      const left = oracles.rates.left(bucket, name, world.time.nowMs)
      if (!isQuiet || !isSettled || left === undefined || world.spreadMs > 0) continue
      if (BigInt(tokens) * 1000n > left) oracles.answers.exceedsTruth(`${bucket} ${name}`, tokens, Number(left) / 1000)
    }
  } catch (error) {
    oracles.answers.failed(`available ${entity}`, error)
  } finally {
    stage.end(operation)
  }
}

/**
 * L1: when nobody has asked for as long as a bucket takes to fill up, a new process is admitted for the whole capacity,
 * whatever has happened before.
 */
export async function checkHealing({world, oracles}: Stage): Promise<void> {
  const {time, scenario} = world
  const entities = new Set(scenario.steps.flatMap(({deed}) => (deed.kind === 'acquire' ? [deed.entity] : [])))
  const buckets = [...entities].flatMap(entity => familyOf(world, entity))
  // Limits that were raised add no tokens until a request has brought the bucket in line.
  if (buckets.some(bucket => oracles.timeline.since(bucket) > 0)) return
  const waits = buckets.map(bucket => oracles.rates.fillTimeMs(bucket, time.nowMs))
  if (waits.includes(undefined)) return
  await time.runUntil(time.nowMs + Math.max(0, ...waits.map(ms => ms ?? 0)) + USUAL_SKEW_MS)
  const limiter = world.freshLimiter()
  for (const entity of [...entities].sort()) {
    const family = familyOf(world, entity)
    const consume: Record<string, number> = {}
    for (const [name, {capacity}] of oracles.timeline.now(family[0] as string)) {
      const capacities = family.map(bucket => oracles.timeline.now(bucket).get(name)?.capacity ?? capacity)
      consume[name] = Math.min(...capacities.map(milli => Number(milli) / 1000))
    }
    let refusal: string | undefined
    const asked = limiter
      .acquire({entity, resource: RESOURCE, consume})
      .then(lease => lease.rollback())
      .catch(error => {
        if (error instanceof RateLimitExceeded || error instanceof RequestTooLarge) refusal = error.message
        else oracles.answers.failed(`healed ${entity}`, error)
      })
    await time.runUntil(time.nowMs + 5000)
    await asked
    if (refusal) oracles.answers.neverHeals(family[0] as string, refusal)
    // The next of the family asks of the same parent.
    const parentWaits = family.slice(1).map(bucket => oracles.rates.fillTimeMs(bucket, time.nowMs) ?? 0)
    await time.runUntil(time.nowMs + Math.max(0, ...parentWaits))
  }
}

function familyOf(world: World, entity: string): string[] {
  const parent = world.scenario.children[entity]
  return [entity, ...(parent === undefined ? [] : [parent])].map(each => bucketId(world.namespace, each, RESOURCE))
}

import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded, RequestTooLarge, ResourceDisabled} from '../../../src/lib/limiter/refusal/errors.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {capacityAt, endOf, quotasOf, type StoredQuota, windowOf} from '../quotas/stored-quota.js'
import {familyAtStart, RESOURCE} from '../scenario.js'
import {bucketId, type Writer} from '../world/table-writes.js'
import {OTHERS, type World} from '../world/world.js'
import type {Stage} from './stage.js'

/** How far wrong clocks may have moved a window ahead, in ms. */
const WRONG_CLOCK_MS = 86_400_000

/**
 * L1 of quotas: after every window has ended, a new process is admitted for the whole allowance, whatever happened
 * before. If another client rounded shares down, one token less per shard.
 */
export async function checkQuotaHealing(stage: Stage): Promise<void> {
  const {world} = stage
  await openAll(stage)
  const entities = new Set(
    world.scenario.steps.flatMap(({event}) =>
      event.kind === 'acquire' || event.kind === 'patient' ? [event.entity] : [],
    ),
  )
  const limiter = world.freshLimiter()
  for (const entity of [...entities].sort()) await checkEntity(stage, limiter, entity)
}

async function checkEntity({world, oracles}: Stage, limiter: RateLimiter, entity: string): Promise<void> {
  const {time} = world
  const family = familyAtStart(world.scenario, entity)
  // A first request updates limits that a client changed without updating buckets.
  for (let warmUp = 0; warmUp < 2; warmUp++) await ask(0)
  // Shards unused since the change are not quotas yet: their first period starts at the next reset.
  if (family.some(each => quotas(world, each).length < shardsOf(world, each).length))
    await ask(wholeAllowance(world, family) ?? 0)
  let asked = await askForAll()
  // Only such a request updates limits changed without updating buckets, shard by shard. It may then have had another
  // allowance, or turned a shard into another kind of quota, whose first period starts at the next reset.
  while (asked && asked.rules !== rulesOf(world, family)) asked = await askForAll()
  // A shard that is not updated yet may claim more than the configuration allows.
  const configured = (each: string) =>
    oracles.timeline.now(bucketId(world.namespace, each, RESOURCE)).get('q')?.capacity
  const isAbove = family.some(each => BigInt(asked?.whole ?? 0) * 1000n > (configured(each) ?? 10n ** 30n))
  if (asked?.refused && !(isAbove && asked.refused.includes('never')))
    oracles.verdicts.report('L1-quota', `${family.join(' + ')} q ${asked.whole}`, asked.refused)

  async function askForAll(): Promise<{whole: number; rules: string; refused: string | undefined} | undefined> {
    for (;;) {
      // A lease may settle long after its request: then wait for the next window.
      let stored: string | undefined
      while (stored !== storedOf(world, family)) {
        stored = storedOf(world, family)
        await time.runUntil(restedMs(world, family))
      }
      const consumed = consumedBy(world, family)
      const whole = wholeAllowance(world, family)
      const rules = rulesOf(world, family)
      if (whole === undefined) return undefined
      const refused = await ask(whole)
      // A lease that settles at this moment charges the probed window.
      if (refused === undefined || consumed === consumedBy(world, family)) return {whole, rules, refused}
    }
  }

  async function ask(tokens: number): Promise<string | undefined> {
    let refused: string | undefined
    const asked = limiter
      .acquire({entity, resource: RESOURCE, consume: {q: tokens}})
      .then(lease => lease.rollback())
      .catch(error => {
        if (error instanceof RateLimitExceeded || error instanceof RequestTooLarge || error instanceof ResourceDisabled)
          refused = error.message
        else oracles.answers.failed(`healed ${entity}`, error)
      })
    await time.runUntil(time.nowMs + 5000)
    await asked
    return refused
  }
}

/**
 * The sum that all levels can give at once; `undefined` if one has a rate of this name. If a client lowered a limit
 * without updating shards, unused shards still have the larger one.
 */
function wholeAllowance(world: World, family: readonly string[]): number | undefined {
  const capacities = family.map(entity => quotas(world, entity).map(quota => capacityAt(quota, world.time.nowMs)))
  if (capacities.some(ofEntity => ofEntity.length === 0)) return undefined
  return Number(capacities.flat().reduce((least, each) => (each < least ? each : least)) / 1000n)
}

/** The sum that all levels can give at once, and the resets or sessions that grant each shard its part. */
function rulesOf(world: World, family: readonly string[]): string {
  const definitions = family.map(entity => quotas(world, entity).map(({definition}) => definition))
  return JSON.stringify([wholeAllowance(world, family), definitions])
}

/** The stored buckets: opposite settlements may leave the consumption unchanged. */
function storedOf(world: World, family: readonly string[]): string {
  return JSON.stringify(family.map(entity => shardsOf(world, entity)))
}

/** Net millitokens consumed by all of these. */
function consumedBy(world: World, family: readonly string[]): bigint {
  return family.flatMap(entity => quotas(world, entity)).reduce((sum, {consumed}) => sum + consumed, 0n)
}

/** When all of these windows have ended. */
function restedMs(world: World, family: readonly string[]): number {
  const {nowMs} = world.time
  const ends = family.flatMap(entity =>
    quotas(world, entity).map(quota => {
      const endMs = endOf(quota, Math.max(windowOf(quota), quota.resets === '' ? (quota.startMs ?? 0) : 0))
      return quota.resets === '' ? endMs : endOf(quota, Math.max(nowMs, quota.refilledAtMs))
    }),
  )
  return Math.max(nowMs, ...ends.filter(ms => ms < nowMs + 400 * WRONG_CLOCK_MS)) + 1000
}

function quotas(world: World, entity: string): StoredQuota[] {
  return shardsOf(world, entity).flatMap(item => quotasOf(item).get('q') ?? [])
}

function shardsOf({items, namespace}: World, entity: string): Item[] {
  const prefix = `${namespace}/BUCKET#${entity}#${RESOURCE}#`
  return items.filter(item => item.PK && 'S' in item.PK && item.PK.S.startsWith(prefix) && 'rf' in item)
}

/** Removes all switches, as an operator. */
async function openAll(stage: Stage): Promise<void> {
  const {world, oracles} = stage
  const writer: Writer = {kind: 'operator', process: OTHERS, event: 'set-access'}
  const tenant = world.repository(writer).namespaceById(world.namespace)
  for (const {event} of world.scenario.steps) {
    if (event.kind !== 'set-access' && event.kind !== 'peer-access') continue
    const opened = tenant.setAccess(event.scope, undefined).catch(error => oracles.answers.failed('open', error))
    await world.time.runUntil(world.time.nowMs + 20_000)
    await opened
  }
}

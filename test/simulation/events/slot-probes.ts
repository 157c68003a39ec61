import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import {RESOURCE} from '../scenario.js'
import type {Stage} from './stage.js'

/** Slots of dead holders are returned by then, in ms. */
const RETURNED_MS = 46_000

/** A decision and its lease, in ms. */
const DECISION_MS = 3000

/** S12, L9: leases that ended hold nothing; after a refusal, neither do dead processes. */
export async function checkSlots({world, oracles}: Stage): Promise<void> {
  const {time} = world
  const {slots} = oracles
  slots.checkEnd(true)
  const limiter = world.freshLimiter()
  const prefix = `${world.namespace}/`
  const asks: (() => Promise<string | undefined>)[] = []
  for (const [bucket, {limits}] of slots.buckets) {
    if (limits.size === 0 || !bucket.startsWith(prefix)) continue
    const [entity = '', resource = ''] = bucket.slice(prefix.length).split('/')
    asks.push(async () => {
      const stored = slots.buckets.get(bucket)?.limits ?? new Map<string, {capacity: number}>()
      const consume = Object.fromEntries([...stored].map(([name, {capacity}]) => [name, capacity]))
      if (stored.size === 0) return undefined
      let refused: string | undefined
      const asked = limiter.acquire({entity, resource, consume}).then(
        lease => lease.rollback(),
        error => {
          if (error instanceof RateLimitExceeded && error.inFlight) refused = `${bucket}: ${error.message}`
        },
      )
      await time.runUntil(time.nowMs + DECISION_MS)
      await asked
      return refused
    })
  }
  // Changed limits reach each bucket with its first request.
  for (const ask of asks) await ask()
  for (const ask of asks) await ask()
  await time.runUntil(time.nowMs + RETURNED_MS)
  for (const ask of asks) {
    const refused = await ask()
    if (refused !== undefined) oracles.verdicts.report('L9-heals', refused, 'after the time in which slots return')
  }
  await time.runUntil(time.nowMs + DECISION_MS)
  slots.checkEnd(false)
}

/** L9: a process that starts to reserve tokens returns those of dead processes. */
export async function checkReservations({world, oracles}: Stage): Promise<void> {
  const {time} = world
  const lease = world.freshLimiter().acquire({entity: 'u9', resource: RESOURCE, consume: {q: 1}, reserve: true})
  void lease.catch(() => {})
  await time.runUntil(time.nowMs + RETURNED_MS)
  oracles.reserved.checkEnd()
}

import {setTimeout as sleep} from 'node:timers/promises'
import {RateLimitExceeded, type RateLimiter} from '../../src/lib/index.js'

/** Somebody who calls models. */
export interface Tenant {
  readonly entity: string
  readonly resource: string
  /** Requests under way at once. */
  readonly lanes: number
  /** Pause of a lane between two requests, in ms. */
  readonly pauseMs: number
  /** Tokens that a request is expected to use, on average. */
  readonly tokens: number
}

/** What became of a tenant's requests. */
export interface Tally {
  readonly tenant: Tenant
  admitted: number
  refused: number
  /** Tokens by the estimates of admitted requests, and what they used in the end. */
  estimated: number
  used: number
  /** Which limit of whom refused, and how often. */
  readonly reasons: Map<string, number>
}

/** How long the model takes, in ms. */
const MODEL_MS = 40

/** All tenants at once until the time is over: estimate, call the model, settle what it really used. */
export async function runTraffic(limiter: RateLimiter, tallies: readonly Tally[], forMs: number): Promise<void> {
  const endMs = performance.now() + forMs
  const lane = async (tally: Tally): Promise<void> => {
    while (performance.now() < endMs) {
      await request(limiter, tally)
      await sleep(tally.tenant.pauseMs * (0.5 + Math.random()))
    }
  }
  await Promise.all(tallies.flatMap(tally => Array.from({length: tally.tenant.lanes}, () => lane(tally))))
}

export const newTally = (tenant: Tenant): Tally => ({
  tenant,
  admitted: 0,
  refused: 0,
  estimated: 0,
  used: 0,
  reasons: new Map(),
})

async function request(limiter: RateLimiter, tally: Tally): Promise<void> {
  const {entity, resource, tokens} = tally.tenant
  const estimate = Math.ceil(tokens * (0.5 + Math.random()))
  try {
    const lease = await limiter.acquire({entity, resource, consume: {rpm: 1, tpm: estimate}})
    await sleep(MODEL_MS * (0.5 + Math.random()))
    // Estimates are careful: most answers turn out shorter, a few longer.
    const used = Math.ceil(estimate * (0.4 + 0.8 * Math.random()))
    await lease.adjust({tpm: used - estimate})
    await lease.commit()
    tally.admitted++
    tally.estimated += estimate
    tally.used += used
  } catch (error) {
    if (!(error instanceof RateLimitExceeded)) throw error
    tally.refused++
    const why = error.statuses.find(status => status.exceeded)
    const reason = why ? `${why.name} of ${why.entity}` : 'unknown'
    tally.reasons.set(reason, (tally.reasons.get(reason) ?? 0) + 1)
    // Polite enough to stay alive, not as patient as it was told to be.
    await sleep(Math.min(error.retryAfterMs, 100))
  }
}

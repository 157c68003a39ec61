import {setTimeout as sleep} from 'node:timers/promises'
import {RateLimitExceeded, type RateLimiter} from '../../src/lib/index.js'

/** An entity that sends requests to a model. */
export interface Tenant {
  readonly entity: string
  readonly resource: string
  /** Number of concurrent requests. */
  readonly lanes: number
  /** Pause of a lane between two requests, in ms. */
  readonly pauseMs: number
  /** Tokens that a request is expected to use, on average. */
  readonly tokens: number
}

/** Results of a tenant's requests. */
export interface Tally {
  readonly tenant: Tenant
  admitted: number
  refused: number
  /** Tokens of admitted requests: estimated, and actually used. */
  estimated: number
  used: number
  /** Number of refusals by limit and entity. */
  readonly reasons: Map<string, number>
}

/** Average duration of a model call, in ms. */
const MODEL_MS = 40

/** Runs all tenants concurrently until the time is over: estimate, call the model, settle what it actually used. */
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
    // Estimates are conservative: most responses are shorter, a few longer.
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
    // Retry sooner than retryAfterMs, to keep up the pressure, but without a busy loop.
    await sleep(Math.min(error.retryAfterMs ?? 100, 100))
  }
}

import {expect} from 'vitest'
import type {Scene} from '../helpers/limiter.js'
import {INPUT} from './billed-calls.js'
import {type BillingProvider, PRICE} from './billing-provider.js'

/** The limits that calls of `user-1` are charged to. */
export async function configureBilled(scene: Scene): Promise<void> {
  await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1k/min', 'tpm=1M/min', 'usd=$100/month@UTC')
}

export async function chargedTo(scene: Scene): Promise<{requests: number; tokens: number; cost: number}> {
  const [requests = 0, tokens = 0, cost = 0] = await Promise.all(
    ['rpm', 'tpm', 'usd'].map(async name => (await scene.totals('user-1', 'gpt-4', name)).consumed),
  )
  return {requests, tokens, cost}
}

/** The charge equals the bill, or exceeds it by at most `over` tokens of output for each call. */
export async function expectBilled(scene: Scene, provider: BillingProvider, calls: number, over = 0): Promise<void> {
  const {requests, tokens, cost} = await chargedTo(scene)
  const {tokens: billed, cost: price} = provider
  expect({requests, isLess: tokens < billed || cost < price}).toEqual({requests: calls, isLess: false})
  expect(tokens - billed).toBeLessThanOrEqual(calls * over)
  // The estimate assumes that input is written to a cache, which costs more.
  const dearer = over === 0 ? 0 : INPUT * (PRICE.cacheWrite - PRICE.input)
  expect(cost - price).toBeLessThanOrEqual(calls * (over * PRICE.output + dearer))
}

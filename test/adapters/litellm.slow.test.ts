import {execFileSync} from 'node:child_process'
import {readFileSync} from 'node:fs'
import {join} from 'node:path'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, it} from 'vitest'
import {limitedFetch} from '../../src/lib/adapters/fetch.js'
import {pricing} from '../../src/lib/adapters/model-price.js'
import {loadPrices, type PriceTable} from '../../src/lib/adapters/prices.js'
import {decodeName, encodeEntityId} from '../../src/lib/core/encoded-name.js'
import {checkEntityId, checkResourceName} from '../../src/lib/core/names.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {encodeResourceName} from '../../src/lib/schema/hashed-name.js'
import {Scene} from '../helpers/limiter.js'
import {pythonEnvironment} from '../helpers/python-environment.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {type BillingProvider, startBillingProvider, TOKEN, WHOLE} from './billing-provider.js'
import {SERVERS} from './servers.js'

const programs = pythonEnvironment({name: 'litellm', usedFor: "Tests with LiteLLM's list of models"})

/** The package itself is never imported: it lacks its dependencies. */
const FIND = "import importlib.util; print(importlib.util.find_spec('litellm').submodule_search_locations[0])"

interface Listed {
  readonly mode?: string
  readonly input_cost_per_token?: number
  readonly output_cost_per_token?: number
  readonly tiered_pricing?: readonly Listed[]
}

const INPUT = 20

describe.skipIf(programs === undefined)("LiteLLM's list of models", () => {
  let path: string
  let listed: ReadonlyMap<string, Listed>
  let prices: PriceTable
  beforeAll(async () => {
    const folder = execFileSync(join(programs as string, 'python'), ['-c', FIND], {encoding: 'utf8'}).trim()
    path = join(folder, 'model_prices_and_context_window_backup.json')
    const {sample_spec: _, ...models} = JSON.parse(readFileSync(path, 'utf8'))
    listed = new Map(Object.entries(models))
    prices = (await loadPrices(path)).models
    expect(listed.size).toBeGreaterThan(4000)
  })

  /** All that are not plain names, and some of the others. */
  const sample = () => [...listed.keys()].filter((id, at) => encodeResourceName(id) !== id || at % 60 === 0)

  it('has a valid and unique name for every id, which decodes to the id', () => {
    const ids = [...listed.keys()]
    const [resources, entities] = [ids.map(encodeResourceName), ids.map(encodeEntityId)]
    expect(new Set(resources).size).toBe(ids.length)
    expect(new Set(entities).size).toBe(ids.length)
    for (const [at, id] of ids.entries()) {
      const [resource, entity] = [resources[at] as string, entities[at] as string]
      expect([checkResourceName(resource), checkEntityId(entity)]).toEqual([resource, entity])
      expect(decodeName(entity)).toBe(id)
      if (resource.startsWith('h--')) expect(id.length, id).toBeGreaterThan(58)
      else expect(decodeName(resource)).toBe(id)
    }
  })

  it('has a price for every model that is billed by the token, and none for others', () => {
    const estimate = {input: 1000, output: 100}
    const [strict, highest] = [pricing(prices), pricing(prices, 'highest')]
    for (const [id, model] of listed) {
      const {input_cost_per_token: input, output_cost_per_token: output = 0} = model.tiered_pricing?.[0] ?? model
      const least = input === undefined ? 0 : (input * estimate.input + output * estimate.output) * 1e6
      const cost = strict.reserve({}, id, estimate)
      expect(cost !== undefined, id).toBe(Object.hasOwn(prices, id))
      if (least > 0) expect(cost, id).toBeGreaterThanOrEqual(Math.floor(least))
      else if (cost !== undefined) expect(cost, id).toBeGreaterThan(0)
      expect(highest.reserve({}, id, estimate), id).toBeGreaterThan(0)
    }
  })

  it('has prices for nearly all chat models', () => {
    const chat = [...listed].filter(([, {mode}]) => mode === 'chat').map(([id]) => id)
    const unpriced = chat.filter(id => !Object.hasOwn(prices, id))
    expect(unpriced.length / chat.length).toBeLessThan(0.08)
  })

  describeOnEngine('in calls', () => {
    const table = useTable()
    let scene: Scene
    let limiter: RateLimiter
    let provider: BillingProvider
    beforeAll(async () => {
      provider = await startBillingProvider()
    })
    afterAll(() => provider.close())
    beforeEach(async () => {
      scene = new Scene(table)
      limiter = scene.limiter({sleep: async () => {}})
      await scene.configure({level: 'system'}, 'rpm=1k/min', 'tpm=1M/min', 'usd=$1M/month@UTC')
    })
    afterEach(() => limiter.close())

    const consumed = async (id: string, limit: string) =>
      (await scene.totals('user-1', encodeResourceName(id), limit)).consumed

    it('charges each by its price, or refuses it', async () => {
      const send = limitedFetch(limiter, {entity: 'user-1', price: prices})
      const ask = async (model: string) => {
        const messages = [{role: 'user', content: TOKEN.repeat(INPUT)}]
        const body = JSON.stringify({model, max_tokens: 100, messages})
        const response = await send(`${provider.url}/v1/chat/completions`, {method: 'POST', body})
        await response.text()
        return response.status
      }
      const usage = {input: INPUT, cachedInput: 0, cacheWrite: 0, output: WHOLE}
      const costs = pricing(prices)
      const expected = sample().map(id => {
        const cost = Object.hasOwn(prices, id) ? costs.of({}, id, usage) : undefined
        return {id, status: cost === undefined ? 400 : 200, tokens: cost === undefined ? 0 : INPUT + WHOLE, cost}
      })
      const found = await Promise.all(
        expected.map(async ({id}) => {
          const status = await ask(id)
          if (status === 400) return {id, status, tokens: 0, cost: undefined}
          return {id, status, tokens: await consumed(id, 'tpm'), cost: await consumed(id, 'usd')}
        }),
      )
      expect(found).toEqual(expected)
      expect(expected.some(({status}) => status === 400)).toBe(true)
    })

    it.each(Object.entries(SERVERS))('charges requests to a server that names them: %s', async (_, start) => {
      const options = {limiter, entityOf: () => 'user-1', consume: {rpm: 1}}
      const resource = (request: unknown) => asked(request)
      const server = await start({...options, resource}, async () => ({status: 200, body: 'ok'}))
      const statuses = await Promise.all(
        sample().map(async id => (await fetch(`${server.url}/${encodeURIComponent(id)}`)).status),
      )
      await server.close()
      expect(new Set(statuses)).toEqual(new Set([200]))
      const charges = await Promise.all(sample().map(id => consumed(id, 'rpm')))
      expect(new Set(charges)).toEqual(new Set([1]))
    })
  })
})

/** The model in the path, of a request or of Hono's context. */
function asked(request: unknown): string {
  const {url, req} = request as {url?: string; req?: {url: string}}
  return decodeURIComponent(new URL(req?.url ?? url ?? '', 'http://localhost').pathname.slice(1))
}

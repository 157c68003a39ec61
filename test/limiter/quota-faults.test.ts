import {beforeEach, expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {loggingAggregator, tableOver} from '../aggregator/fixtures/stream.js'
import {StreamTap} from '../aggregator/fixtures/stream-tap.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const MIDNIGHT = Date.parse('2026-03-11T00:00:00Z')
const USER = {entity: 'user-1', resource: 'gpt-4'}

const quota = {name: 'q', capacity: 10, refillAmount: 0, refillPeriodSeconds: 1}
const daily = makeLimit({...quota, reset: {crons: ['0 0 * * *']}, timeZone: 'UTC'})
const session = makeLimit({...quota, reset: {afterSeconds: 3600}})
const rate = (more: Partial<Limit> = {}): Limit =>
  makeLimit({name: 'q', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60, ...more})

/** Marks in a separate slot: otherwise one process may overwrite the mark that another looks for. */
const inSlot = (slot: number) => (count: number) => {
  const bytes = crypto.getRandomValues(new Uint8Array(count))
  bytes[0] = slot
  return bytes
}

describeOnBoth('quota allowances', {timeout: 60_000}, table => {
  let scene: Scene

  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = MIDNIGHT - HOUR_MS
  })

  const limiter = (limit: Limit, more = {}) => scene.limiter({defaultLimits: [limit], denyCacheMs: 0, ...more})

  async function admitted(by: RateLimiter, requests: number): Promise<number> {
    let count = 0
    for (let request = 0; request < requests; request++) {
      const outcome = await by.acquire({...USER, consume: {q: 1}}).catch(error => error)
      if (!(outcome instanceof RateLimitExceeded)) {
        await outcome.commit()
        count++
      }
    }
    return count
  }

  it('keeps a bucket beyond the next reset after the aggregator reset a quota', async () => {
    const tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = tap
    const aggregator = loggingAggregator({table: tableOver(tap, table.name, () => scene.nowMs)})
    const client = limiter(daily)
    expect(await admitted(client, 2)).toBe(2)
    scene.nowMs = MIDNIGHT - 500
    expect(await admitted(client, 8)).toBe(8)
    scene.nowMs = MIDNIGHT + 500
    await aggregator.handle({Records: tap.take()})
    // Only the aggregator resets here: the client takes from the balance.
    expect((await scene.totals(USER.entity, USER.resource, 'q')).tokens).toBe(10)
    expect(await admitted(client, 12)).toBe(10)
    const [record] = await scene.shards(USER.entity, USER.resource)
    expect((record?.ttlSeconds ?? 0) * 1000).toBeGreaterThan(MIDNIGHT + DAY_MS)
  })

  it('keeps a bucket longer than clocks differ after its reset', async () => {
    // Every bucket lives for seven days: the reset is later.
    const yearly = makeLimit({...quota, reset: {crons: ['0 0 1 1 *']}, timeZone: 'UTC'})
    scene.nowMs = Date.UTC(2024, 11, 1)
    expect(await admitted(limiter(yearly, {bucketTtlMultiplier: 1}), 12)).toBe(10)
    const [record] = await scene.shards(USER.entity, USER.resource)
    expect((record?.ttlSeconds ?? 0) * 1000).toBeGreaterThanOrEqual(Date.UTC(2025, 0, 1) + 60_000)
  })

  it('does not refund a charge found after the reset to the new window', async () => {
    const other = limiter(daily, {transport: table.transport, randomBytes: inSlot(1)})
    const client = limiter(daily, {randomBytes: inSlot(0)})
    expect(await admitted(client, 2)).toBe(2)
    scene.nowMs = MIDNIGHT - 10
    const faults = new FaultTransport(table.transport)
    faults.start({kind: 'lost after apply', at: 1, operation: 'UpdateItem'})
    let today = 0
    scene.transport = {
      send: (...call) =>
        faults.send(...call).catch(async error => {
          if (today === 0) {
            scene.nowMs = MIDNIGHT + 10
            today = await admitted(other, 8)
          }
          throw error
        }),
    }
    const lease = await client.acquire({...USER, consume: {q: 6}})
    expect(today).toBe(8)
    await lease.release({q: 6})
    expect(await admitted(other, 12)).toBe(2)
  })

  it('does not refund a charge found after a manual reset to the filled bucket', async () => {
    const other = limiter(rate(), {transport: table.transport, randomBytes: inSlot(1)})
    const client = limiter(rate(), {randomBytes: inSlot(0)})
    const operator = {...scene.tenant, randomBytes: inSlot(2)}
    expect(await admitted(client, 2)).toBe(2)
    const faults = new FaultTransport(table.transport)
    faults.start({kind: 'lost after apply', at: 1, operation: 'UpdateItem'})
    let since = 0
    scene.transport = {
      send: (...call) =>
        faults.send(...call).catch(async error => {
          if (since === 0) {
            await new NamespaceRepository(operator, undefined).resetBucket(USER)
            since = await admitted(other, 8)
          }
          throw error
        }),
    }
    const lease = await client.acquire({...USER, consume: {q: 6}})
    await lease.release({q: 6})
    expect(await admitted(other, 12)).toBe(2)
  })

  it('does not refund tokens of a rate to the session that the limit became', async () => {
    const before = limiter(rate())
    expect(await admitted(before, 1)).toBe(1)
    const lease = await before.acquire({...USER, consume: {q: 6}})
    const after = limiter(session)
    // The first decision of a process uses the stored limits.
    expect(await admitted(after, 1)).toBe(1)
    expect(await admitted(after, 12)).toBe(10)
    await lease.release({q: 6})
    expect(await admitted(after, 12)).toBe(0)
  })

  it('cuts a balance above the capacity when its schedule is removed', async () => {
    const schedule = [{cron: '* * * * *', capacity: 100, refillAmount: 100, refillPeriodSeconds: 60}]
    expect(await admitted(limiter(rate({schedule, timeZone: 'UTC'})), 1)).toBe(1)
    const [record] = await scene.shards(USER.entity, USER.resource)
    expect(record?.state.limits.get('q')?.tokensMilli).toBe(99_000n)
    const plain = limiter(rate())
    expect(await admitted(plain, 120)).toBe(10)
  })
})

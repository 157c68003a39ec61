import {describe, expect, it} from 'vitest'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {migrateTable} from '../../../src/lib/migrations/run.js'
import {rateLimited} from '../../../src/lib/migrations/walk/rate-limit.js'
import {FaultTransport} from '../../helpers/fault-transport.js'
import {describeOnEngine} from '../../helpers/table.js'
import {makePopulation} from '../fixtures/make-population.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

/** A table that responds at once and reports the cost of each write; time passes only during pauses. */
class PacedScene {
  nowMs = 0
  consumed: {atMs: number; units: number}[] = []
  readonly inner: Transport = {
    send: async operation => {
      if (operation === 'PutItem') this.consumed.push({atMs: this.nowMs, units: 7})
      return {ConsumedCapacity: {CapacityUnits: 7}} as never
    },
  }
  readonly pace = {
    clock: () => this.nowMs,
    sleep: async (ms: number) => {
      this.nowMs += ms
    },
  }
}

describe('a rate limit', () => {
  it('holds over any period, except for one second of burst and one write', async () => {
    const scene = new PacedScene()
    const transport = rateLimited(scene.inner, 50, scene.pace)
    await Promise.all(Array.from({length: 300}, () => transport.send('PutItem', {TableName: 't', Item: {}})))
    const {consumed} = scene
    expect(consumed).toHaveLength(300)
    for (const [first, {atMs: from}] of consumed.entries()) {
      let units = 0
      for (const {atMs: to, units: cost} of consumed.slice(first)) {
        units += cost
        expect(units).toBeLessThanOrEqual(50 + 50 * ((to - from) / 1000) + 7)
      }
    }
    // And it is used: 2,100 units at 50 a second take about 42 s.
    expect(scene.nowMs).toBeGreaterThan(38_000)
    expect(scene.nowMs).toBeLessThan(44_000)
  })

  it('does not delay reads, and requests the cost of every write', async () => {
    const scene = new PacedScene()
    const inputs: unknown[] = []
    const inner: Transport = {
      send: async (operation, input) => {
        inputs.push(input)
        return scene.inner.send(operation, input)
      },
    }
    const transport = rateLimited(inner, 1, scene.pace)
    await transport.send('PutItem', {TableName: 't', Item: {}})
    await transport.send('GetItem', {TableName: 't', Key: {}})
    expect(scene.nowMs).toBe(0)
    expect(inputs[0]).toMatchObject({ReturnConsumedCapacity: 'TOTAL'})
  })
})

describeOnEngine('a migration', () => {
  const scene = useOldTable(3, population => itemsOf(3, population), makePopulation({entities: 8}))

  it('stays below its rate limit, as the engine counts units', async () => {
    let nowMs = 0
    const table = scene.table
    const sleep = async (ms: number) => {
      nowMs += ms
    }
    const start = scene.capacity.snapshot()
    const slow = {...table, clock: () => scene.nowMs + nowMs, backoff: {...table.backoff, sleep}}
    await migrateTable(slow, {owner: 'test', ourVersion: '0.3.0', stream: false, rateLimit: 25})
    const {write} = scene.capacity.since(start)
    expect(write).toBeGreaterThan(200)
    // Progress is recorded outside of it: once for each page and step.
    expect(write).toBeLessThanOrEqual(25 * (nowMs / 1000) + 25 + 120)
  })
})

describeOnEngine('a migration on a table that throttles', () => {
  const scene = useOldTable(3, population => itemsOf(3, population))

  it('waits and continues', async () => {
    const faults = new FaultTransport(scene.own)
    scene.transport = faults
    faults.start({kind: 'throttled', at: 40, times: 5})
    const result = await scene.migrate()
    expect(faults.hits).toBe(5)
    expect(result.finished).toBe(true)
    expect((await scene.verify()).clean).toBe(true)
  })
})

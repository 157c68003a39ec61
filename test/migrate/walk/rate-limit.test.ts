import {expect, it} from 'vitest'
import {migrateTable} from '../../../src/lib/migrate/run.js'
import {FaultTransport} from '../../helpers/fault-transport.js'
import {describeOnEngine} from '../../helpers/table.js'
import {makePopulation} from '../fixtures/make-population.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

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

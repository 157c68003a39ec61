import {beforeEach, expect, it} from 'vitest'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {request} from '../limiter/visit.js'
import {loggingAggregator, streamRecord, tableOver} from './fixtures/stream.js'

const STAMPS: ReadonlyArray<[what: string, stamp: Item, errors: number]> = [
  ['a schedule that cannot be read', {sched: s('2s100'), sched_tz: s('UTC'), vu: n(1_700_000_900_000)}, 1],
  ['resets that cannot be read', {b_rpm_ra: n(0), rsched: s('1|0 0 * * *'), vu: n(1_700_000_900_000)}, 1],
  ['a session that a client must open', {b_rpm_ra: n(0), b_rpm_rsa: n(1), b_rpm_ws: n(1_699_999_900_000), vu: n(0)}, 0],
]

describeOnBoth('the aggregator on buckets of zae-limiter 0.17', {}, table => {
  let scene: Scene
  let peer: PythonPeer

  beforeEach(async () => {
    scene = new Scene(table)
    peer = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=6000/min')
    await scene.limiter().acquire(request({rpm: 1}))
  })

  it.each(STAMPS)('G5 counts usage of %s, and does not refill it', async (_, stamp, errors) => {
    const start = (await peer.item()) as Item
    const image = (consumed: number, writes: number): Item => ({
      ...start,
      ...stamp,
      b_rpm_tk: n(10_000),
      b_rpm_tc: n(consumed),
      b_wcu_tc: n(writes),
    })
    await table.transport.send('PutItem', {TableName: table.name, Item: image(0, 0)})
    const Records = [1, 2, 3, 4].map(second => {
      scene.nowMs += 1000
      const [before, after] = [image((second - 1) * 5e6, second - 1), image(second * 5e6, second)]
      return streamRecord(before, after, {atMs: scene.nowMs})
    })
    const {counts} = await loggingAggregator({
      table: tableOver(table.transport, table.name, () => scene.nowMs),
    }).handle({Records})
    expect(counts).toMatchObject({refills: 0, splits: 0, errors})
    expect(counts.snapshots).toBeGreaterThan(0)
    expect(await peer.item()).toEqual(image(0, 0))
  })

  it('G5 refills a limit by the rate of its schedule', async () => {
    const before = {...(await peer.item()), sched: s('1s100'), sched_tz: s('UTC'), vu: n(1_700_000_900_000)} as Item
    const after = {...before, b_rpm_tk: n(10_000), b_rpm_tc: n(500_000)}
    await table.transport.send('PutItem', {TableName: table.name, Item: after})
    scene.nowMs += 4000
    const {counts} = await loggingAggregator({
      table: tableOver(table.transport, table.name, () => scene.nowMs),
    }).handle({Records: [streamRecord(before, after, {atMs: scene.nowMs})]})
    expect(counts).toMatchObject({refills: 1, errors: 0})
    // A tenth of 6000 per minute: 40 in 4 s.
    expect(await peer.number('b_rpm_tk')).toBe(50_000)
  })
})

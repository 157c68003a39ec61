import {expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {ALWAYS, aggregatorOn, store} from '../aggregator/rollup/rolled-table.js'
import {usePeers} from './peers.js'
import {describeWithPeers, limit} from './python-client.js'

describeWithPeers.each(['0.10', '0.17'] as const)('the aggregator of zae-limiter %s and then that of zael', release => {
  const peers = usePeers(release)

  it('leave two records of a day, which zael reads as one', async () => {
    const scene = await peers.scene()
    const {client, repository} = scene
    await client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 100)]})
    // The first traffic of the day, so that its record is labelled as one of a day.
    await scene.at(Date.UTC(2027, 2, 4, 9, 30))
    await client.acquire('u', 'gpt', {rpm: 1})
    const before = await scene.changes(() => client.acquire('u', 'gpt', {rpm: 1}, {times: 4}))
    expect((await client.process.stream(client.stack, before)).errors).toEqual([])
    await scene.pass(3_600_000)
    await scene.aggregate(await scene.changes(() => scene.ask('u', 'gpt', {rpm: 2}, 3)))
    const days = [...(await scene.items()).keys()].filter(key => /2027-03-04T00:00:00Z(#daily)?$/.test(key))
    expect(days).toHaveLength(2)
    for (const subject of [{entity: 'u'}, {resource: 'gpt'}, {entity: 'u', resource: 'gpt'}]) {
      const {records} = await repository.usageWindows({...subject, window: 'daily'})
      expect(records).toMatchObject([{start: '2027-03-04T00:00:00Z', tokens: {rpm: 10}}])
      expect(await repository.usageTotals({...subject, window: 'daily'})).toMatchObject({
        ...{windows: 1, limits: {rpm: {total: 10, average: 10}}},
      })
    }
  })
})

describeWithPeers('the stream processors of zae-limiter 0.17 and of zael', () => {
  const peers = usePeers('0.17')

  it("count the overdrafts of a soft limit alike, and read each other's count", async () => {
    const scene = await peers.currentScene()
    const {client, repository} = scene
    const soft = [limit('rpm', 3, 60, {soft: true}), limit('tpm', 100)]
    await client.repository('set_resource_defaults', {resource: 'soft', limits: soft})
    await using limiter = scene.limiter()
    // Of ten requests for the limit of three, the first two are before the stream starts here.
    for (const entity of ['byZael', 'byPython']) await client.acquire(entity, 'soft', {rpm: 1}, {times: 2})
    const records = new Map<string, StreamRecord[]>()
    for (const entity of ['byZael', 'byPython']) {
      const all: StreamRecord[] = []
      for (let i = 0; i < 4; i++) {
        const writes = [
          () => client.acquire(entity, 'soft', {rpm: 1}),
          () => limiter.acquire({entity, resource: 'soft', consume: {rpm: 1}}),
          () => limiter.acquire({entity, resource: 'soft', consume: {tpm: 1}}),
        ]
        for (const write of writes) all.push(...(await scene.changes(write)))
      }
      records.set(entity, all)
    }
    await scene.aggregate(records.get('byZael') ?? [])
    await client.process.stream(client.stack, records.get('byPython') ?? [])
    for (const entity of ['byZael', 'byPython']) {
      const {records: windows} = await repository.usageWindows({entity, resource: 'soft', window: 'hourly'})
      expect(windows).toMatchObject([{tokens: {rpm: 8, tpm: 4}, overdrawn: {rpm: 7}}])
      const [snapshots] = await client.repository<[{counters: object; overdrawn: object}[], unknown]>(
        'get_usage_snapshots',
        {entity_id: entity, resource: 'soft', window_type: 'hourly'},
      )
      expect(snapshots).toMatchObject([{counters: {rpm: 8, tpm: 4}, overdrawn: {rpm: 7}}])
    }
  })

  it('find a day and a month that zael has rolled up', async () => {
    const scene = await peers.currentScene()
    const {client} = scene
    const {name, transport} = peers.table
    await store(transport, name, ALWAYS)
    await client.repository('set_resource_defaults', {resource: 'rolled', limits: [limit('rpm', 100)]})
    await scene.at(Date.UTC(2027, 4, 31, 21, 30))
    await client.acquire('u', 'rolled', {rpm: 1})
    for (let hour = 0; hour < 2; hour++) {
      await scene.aggregate(await scene.changes(() => scene.ask('u', 'rolled', {rpm: 2}, 3)))
      await scene.pass(3_600_000)
    }
    const read = async (window_type: string) => {
      const subject = {entity_id: 'u', resource: 'rolled', window_type}
      const [found] = await client.repository<[{counters: object; window_start: string}[], unknown]>(
        'get_usage_snapshots',
        subject,
      )
      return found.map(({counters, window_start}) => ({counters, window_start}))
    }
    expect(await read('daily')).toEqual([])
    let nowMs = Date.UTC(2027, 5, 1, 2)
    const {tick} = aggregatorOn(transport, name, () => nowMs)
    for (let turn = 0; turn < 3; turn++) {
      await tick()
      nowMs += 61_000
    }
    expect(await read('daily')).toEqual([{counters: {rpm: 12}, window_start: '2027-05-31T00:00:00Z'}])
    expect(await read('monthly')).toEqual([{counters: {rpm: 12}, window_start: '2027-05-01T00:00:00Z'}])
    expect((await read('hourly')).map(({counters}) => counters)).toEqual([{rpm: 6}, {rpm: 6}])
  })
})

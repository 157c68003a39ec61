import {beforeEach, expect, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {Denied} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {request} from '../limiter/visit.js'
import {loggingAggregator, streamRecord, tableOver} from './fixtures/stream.js'

const MINUTE_MS = 60_000

describeOnBoth('expired temporary limits', {}, table => {
  const resource = {level: 'resource', resource: 'gpt-4'} as const
  const entity = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
  let scene: Scene
  let repository: NamespaceRepository
  let untilMs: number

  beforeEach(async () => {
    scene = new Scene(table)
    scene.nowMs = Date.parse('2026-11-16T14:36:12Z')
    repository = new NamespaceRepository(scene.tenant, 'tester')
    await repository.setLimits(resource, [parseLimit('tpm=100/min'), parseLimit('rpm=10/min')])
    untilMs = Date.parse('2026-11-16T15:00:00Z')
    await repository.setLimits(entity, [parseLimit('tpm=400/min')], {until: new Date(untilMs)})
  })

  const aggregatorOver = (transport: Transport = table.transport) =>
    loggingAggregator({table: tableOver(transport, table.name, () => scene.nowMs)})

  /** A stream record: a use of the bucket. */
  async function used() {
    const limiter = scene.limiter()
    await limiter.acquire(request({tpm: 1}))
    await limiter.close()
    const image = (await new PythonPeer(scene).item(0)) as Item
    return {Records: [streamRecord(undefined, image, {atMs: scene.nowMs})]}
  }

  const actions = async () => (await repository.audit.list({entity: 'user-1'})).records

  it('are removed by the aggregator, which checks every five minutes', async () => {
    const aggregator = aggregatorOver()
    await aggregator.handle(await used())
    expect((await repository.configs.get(entity))?.limits).toHaveLength(2)
    scene.nowMs = untilMs + 4 * MINUTE_MS
    await aggregator.handle(await used())
    expect(await repository.configs.boosts()).toHaveLength(1)
    scene.nowMs = untilMs + 9 * MINUTE_MS
    const {failures, counts} = await aggregator.handle(await used())
    expect({failures, errors: counts.errors}).toEqual({failures: [], errors: 0})
    expect(await repository.configs.get(entity)).toBeUndefined()
    expect(await repository.configs.boosts()).toEqual([])
    expect((await actions())[0]).toMatchObject({action: 'limits_boost_ended', principal: 'aggregator'})
    // The bucket follows the resource again, without its windows.
    expect((await new PythonPeer(scene).item(0))?.sched).toBeUndefined()
  })

  it('cost one query per five minutes if there are none', async () => {
    const calls: string[] = []
    const aggregator = aggregatorOver({
      send: (operation, input, options) => {
        if (!JSON.stringify(input).includes('#ROLLUPS')) calls.push(operation)
        return table.transport.send(operation, input, options)
      },
    })
    const event = await used()
    await aggregator.handle(event)
    scene.nowMs += 4 * MINUTE_MS
    await aggregator.handle(event)
    expect(calls.filter(operation => operation === 'Query')).toHaveLength(1)
    expect(calls.filter(operation => ['GetItem', 'TransactWriteItems'].includes(operation))).toEqual([])
  })

  it('are kept if the role does not permit removal, with one log line', async () => {
    const aggregator = aggregatorOver({
      send: (operation, input, options) => {
        if (operation === 'Query') throw new Denied('Query')
        return table.transport.send(operation, input, options)
      },
    })
    for (let times = 0; times < 3; times++) {
      const {counts, failures} = await aggregator.handle(await used())
      expect({errors: counts.errors, failures}).toEqual({errors: 0, failures: []})
      scene.nowMs += 6 * MINUTE_MS
    }
    expect(aggregator.lines.filter(({message}) => message.startsWith('expired boosts are not removed'))).toHaveLength(1)
  })
})

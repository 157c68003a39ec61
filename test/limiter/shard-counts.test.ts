import {beforeEach, expect, it} from 'vitest'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, refusal, request, splitInto} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const

describeOnBoth('known shards', {timeout: 60_000}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(RESOURCE, 'rpm=100/day')
    await scene.limiter().acquire(request({}))
  })

  const limiter = () => scene.limiter({random: () => 0})

  /** Runs something just before the next read of all shards. */
  function beforeShardsAreRead(intrude: () => Promise<unknown>): void {
    let hasIntruded = false
    const transport: Transport = {
      send: async (sent, input, options) => {
        if (sent === 'BatchGetItem' && JSON.stringify(input).includes('/BUCKET#') && !hasIntruded) {
          hasIntruded = true
          await intrude()
        }
        return table.transport.send(sent, input, options)
      },
    }
    scene.transport = transport
  }

  it('S8 do not make one refusing shard speak for the others when the entity cache has expired', async () => {
    await splitInto(scene, 4)
    const one = limiter()
    await one.acquire(request({rpm: 1}))
    scene.nowMs += 10_000
    // Empties shard 0.
    await one.acquire(request({rpm: 24}))
    scene.nowMs += 19_900
    await one.acquire(request({rpm: 20}))
    // Families of entities are looked up again after half a minute; the shards must stay known.
    scene.nowMs += 200
    expect(await isAdmitted(one.acquire(request({rpm: 20})))).toBe(true)
  })

  it('S8 L2 hide no tokens after a split between two reads, and no wait is infinite', async () => {
    await splitInto(scene, 2)
    const one = limiter()
    await one.acquire(request({rpm: 1}))
    beforeShardsAreRead(() => splitBucket(scene.tenant, 'user-1', 'gpt-4', 2))
    expect(await isAdmitted(one.acquire(request({rpm: 80})))).toBe(true)
    const {retryAfterMs} = await refusal(one.acquire(request({rpm: 80})))
    expect(retryAfterMs).toBeLessThanOrEqual(86_400_000)
  })

  it('L2 wait by the limits in force after a raise, not by those in some shards', async () => {
    await splitInto(scene, 4)
    const one = limiter()
    await one.acquire(request({rpm: 90}))
    await scene.configure(RESOURCE, 'rpm=1000/day')
    scene.nowMs += 60_000
    const {retryAfterMs, statuses} = await refusal(one.acquire(request({rpm: 900})))
    expect(statuses).toMatchObject([{capacity: 1000}])
    expect(retryAfterMs).toBeLessThanOrEqual(86_400_000)
    scene.nowMs += retryAfterMs
    expect(await isAdmitted(one.acquire(request({rpm: 900})))).toBe(true)
  })

  it('are recreated if their bucket is deleted while they are read', async () => {
    await splitInto(scene, 2)
    const one = limiter()
    await one.acquire(request({rpm: 1}))
    beforeShardsAreRead(async () => {
      for (const shard of [0, 1]) {
        const Key = wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', shard))
        await table.transport.send('DeleteItem', {TableName: table.name, Key})
      }
    })
    expect(await isAdmitted(one.acquire(request({rpm: 80})))).toBe(true)
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 20, consumed: 80})
  })
})

describeOnBoth('the wait of a family', {timeout: 60_000}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(RESOURCE, 'rpm=1000/day')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=100/day')
    await scene.entity('user-1', 'team-1')
  })

  it('L2 includes the refund of the child when the parent refuses', async () => {
    const one = scene.limiter()
    await one.acquire(request({rpm: 90}))
    // A parent whose state is known would refuse before the child is charged.
    scene.nowMs += 2000
    const childKey = JSON.stringify(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0).PK)
    let childWrites = 0
    scene.transport = {
      send: async (operation, input, options) => {
        const isReturn = operation === 'UpdateItem' && JSON.stringify(input).includes(childKey) && ++childWrites === 2
        if (isReturn) for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
        return table.transport.send(operation, input, options)
      },
    }
    await refusal(one.acquire(request({rpm: 20})))
    expect(childWrites).toBe(2)
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(90)
  })

  it("L3 rejects a request above the parent's capacity at once, even if the child is known to refuse", async () => {
    const ofTeam = {level: 'entity', entity: 'team-1', resource: 'gpt-4'} as const
    await scene.configure(ofTeam, 'rpm=10000/day')
    const one = scene.limiter()
    await one.acquire(request({rpm: 950}))
    await scene.configure(ofTeam, 'rpm=100/day')
    scene.nowMs += 60_000
    await one.acquire(request({rpm: 1}))
    // The child is known to refuse: neither of them is asked.
    scene.calls.length = 0
    expect(await failure(one.acquire(request({rpm: 450})))).toMatchObject({code: 'request.too-large'})
    expect(scene.calls.filter(call => call === 'UpdateItem')).toEqual([])
  })
})

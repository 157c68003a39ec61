import {beforeEach, describe, expect, it} from 'vitest'
import type {OperationInput} from '../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {readNumber} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, refusal, request} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const
const DAY_MS = 86_400_000

describeOnBoth('a bucket after a long pause', {timeout: 60_000}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(RESOURCE, 'rpm=100/min')
  })

  const visit = (limiter: RateLimiter, entity: string, rpm = 1) => limiter.acquire(request({rpm}, entity))

  async function visited(entities: readonly string[], rpm = 1): Promise<RateLimiter> {
    const limiter = scene.limiter()
    for (const entity of entities) await visit(limiter, entity, rpm)
    await limiter.settled()
    return limiter
  }

  const usedByAnother = async (rpm: number) => (await visited(['user'], rpm)).close()

  const bucketKey = () => ({
    TableName: table.name,
    Key: {PK: {S: `${scene.namespace}/BUCKET#user#gpt-4#0`}, SK: {S: '#STATE'}},
  })

  async function expiryMs(): Promise<number> {
    const {Item} = await table.transport.send('GetItem', {...bucketKey(), ConsistentRead: true})
    return (readNumber(Item ?? {}, 'ttl') ?? Number.NaN) * 1000
  }

  describe.each([
    {process: 'a process that knows nothing', start: async () => scene.limiter()},
    {process: 'a process that reads first', start: () => visited(['n1', 'n2', 'n3', 'n4'])},
    {process: 'a process that writes first', start: () => visited(['n1', 'n1', 'n1'])},
  ])('$process', ({start}) => {
    it('S9 decides by the current limits even if the bucket has expired undeleted, and renews it', async () => {
      const limiter = await start()
      await usedByAnother(100)
      scene.nowMs += 30 * DAY_MS
      expect(await expiryMs()).toBeLessThan(scene.nowMs)
      await scene.configure(RESOURCE, 'rpm=10/min')
      expect(await failure(visit(limiter, 'user', 11))).toMatchObject({code: 'request.too-large'})
      await visit(limiter, 'user', 10)
      expect(await expiryMs()).toBeGreaterThan(scene.nowMs + 3 * DAY_MS)
      await refusal(visit(limiter, 'user', 1))
    })

    it('S1 recreates a bucket that is deleted after it was read', async () => {
      await usedByAnother(50)
      scene.nowMs += 6 * DAY_MS
      const limiter = await start()
      const {transport} = scene
      let isDeleted = false
      scene.transport = {
        send: async (operation, input, options) => {
          const answer = await transport.send(operation, input, options)
          const {Key} = input as OperationInput<'GetItem'>
          if (operation !== 'GetItem' || isDeleted || !JSON.stringify(Key).includes('#user#')) return answer
          isDeleted = true
          await table.transport.send('DeleteItem', bucketKey())
          return answer
        },
      }
      await visit(limiter, 'user', 100)
      await refusal(visit(limiter, 'user', 1))
      expect(await scene.totals('user', 'gpt-4', 'rpm')).toMatchObject({tokens: 0})
    })

    it('S1 keeps a monthly quota used up until its last second, in a leap year', async () => {
      scene.nowMs = Date.UTC(2024, 0, 31, 23, 59, 59)
      await scene.configure(RESOURCE, 'rpm=100/month@UTC')
      const limiter = await start()
      await usedByAnother(40)
      scene.nowMs = Date.UTC(2024, 1, 1)
      await visit(limiter, 'user', 100)
      expect(await expiryMs()).toBeGreaterThanOrEqual(Date.UTC(2024, 2, 1))
      scene.nowMs = Date.UTC(2024, 1, 29, 23, 59, 59)
      await refusal(visit(scene.limiter(), 'user', 1))
      await refusal(visit(limiter, 'user', 1))
      scene.nowMs = Date.UTC(2024, 2, 1)
      await visit(limiter, 'user', 100)
      await refusal(visit(scene.limiter(), 'user', 1))
    })

    it('S1 keeps a debt of more than a week', async () => {
      await scene.configure(RESOURCE, 'rpm=100/hour')
      const other = scene.limiter()
      const lease = await visit(other, 'user', 1)
      await lease.adjust({rpm: 10 * 24 * 100})
      await lease.commit()
      await other.close()
      const limiter = await start()
      scene.nowMs += 9 * DAY_MS
      expect(await expiryMs()).toBeGreaterThan(scene.nowMs)
      expect(await isAdmitted(visit(limiter, 'user', 1))).toBe(false)
    })
  })
})

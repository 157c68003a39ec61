import {beforeEach, expect, it} from 'vitest'
import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'

const CAPACITY = 100
const PER_SECOND = 10

describeOnBoth('S7 clocks that disagree', {}, table => {
  let scene: Scene
  /** Refill instants as stored, in order. */
  let instants: number[]
  let admitted: number
  beforeEach(async () => {
    scene = new Scene(table)
    instants = []
    admitted = 0
    await scene.configure({level: 'resource', resource: 'gpt-4'}, `tpm=${PER_SECOND}/s:${CAPACITY}`)
  })

  /** Takes as much as possible, in pieces. */
  async function drain(limiter: ReturnType<Scene['limiter']>, piece: number): Promise<void> {
    for (;;) {
      const isAdmitted = await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {tpm: piece}}).then(
        () => true,
        (error: unknown) => {
          if (error instanceof RateLimitExceeded) return false
          throw error
        },
      )
      const [record] = await scene.shards('user-1', 'gpt-4')
      if (record) instants.push(record.state.refilledAtMs)
      if (!isAdmitted) return
      admitted += piece
    }
  }

  function expectNothingMinted(spanMs: number): void {
    expect(instants).toEqual([...instants].sort((a, b) => a - b))
    expect(admitted).toBeLessThanOrEqual(CAPACITY + (PER_SECOND * spanMs) / 1000)
  }

  it.each([0, 1000])(
    'bounds the credit of two processes with clocks ±10 s apart (deny cache %i ms)',
    async denyCacheMs => {
      const early = scene.limiter({clock: () => scene.nowMs - 10_000, denyCacheMs})
      const late = scene.limiter({clock: () => scene.nowMs + 10_000, denyCacheMs})
      for (let second = 0; second < 20; second++) {
        await drain(early, 7)
        await drain(late, 7)
        scene.nowMs += 1000
      }
      // From the first reading by the slow clock to the last by the fast one.
      expectNothingMinted(20_000 + 19_000)
      // The fast clock alone may use nearly all of it: a clock that is ahead does not freeze the budget.
      expect(admitted).toBeGreaterThanOrEqual(CAPACITY + PER_SECOND * 19 - 14)
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toMatchObject({consumed: admitted})
    },
  )

  it.each([1, 10_000, 59_000, 3_600_000])('credits no time twice when a clock jumps back by %i ms', async backMs => {
    const start = scene.nowMs
    const limiter = scene.limiter()
    for (let second = 0; second < 5; second++) {
      await drain(limiter, 3)
      scene.nowMs += 1000
    }
    const latest = scene.nowMs
    await drain(limiter, 3)
    const before = admitted
    scene.nowMs -= backMs
    await drain(limiter, 3)
    expect(admitted).toBe(before)
    // Through the same time again, until just before the previous instant.
    for (const share of [0.25, 0.5, 0.99]) {
      scene.nowMs = latest - Math.ceil(backMs * (1 - share))
      await drain(limiter, 3)
    }
    expect(admitted).toBe(before)
    scene.nowMs = latest + 1000
    await drain(limiter, 3)
    expect(admitted).toBeGreaterThan(before)
    expectNothingMinted(scene.nowMs - start)
  })

  it('does not move the refill instant when a slow clock writes for another reason', async () => {
    await drain(scene.limiter(), 10)
    const slow = scene.limiter({clock: () => scene.nowMs - 10_000, configCacheMs: 0})
    await scene.configure({level: 'resource', resource: 'gpt-4'}, `tpm=${PER_SECOND}/s:${CAPACITY}`, 'rpm=60/min')
    await slow.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}})
    const [bucket] = await scene.shards('user-1', 'gpt-4')
    expect(bucket?.state.limits.has('rpm')).toBe(true)
    expect(bucket?.state.refilledAtMs).toBe(scene.nowMs)
    await drain(scene.limiter(), 10)
    expect(admitted).toBe(CAPACITY)
  })

  it('expires known states when a clock jumps back', async () => {
    const limiter = scene.limiter()
    await drain(limiter, 10)
    scene.nowMs -= 30_000
    // Another process refunds some; the old refusal must not outlive the deny cache.
    await scene.table.transport.send('UpdateItem', {
      TableName: scene.table.name,
      Key: {PK: {S: `${scene.namespace}/BUCKET#user-1#gpt-4#0`}, SK: {S: '#STATE'}},
      UpdateExpression: 'ADD b_tpm_tk :back',
      ExpressionAttributeValues: {':back': {N: '50000'}},
    })
    await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {tpm: 50}})
  })
})

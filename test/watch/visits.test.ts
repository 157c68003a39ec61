import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limit.js'
import {keys} from '../../src/lib/schema/keys.js'
import type {HealthLine} from '../../src/lib/watch/model.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {putBucket} from '../repository/namespace-table.js'
import {pollNumber, settled, until, WatchStage} from './running-watch.js'

const limits = parseLimits(['rpm=100'])

/** Health that is answered when the test says so. */
class LateHealth {
  readonly signals: AbortSignal[] = []
  readonly #answers: ((lines: readonly HealthLine[]) => void)[] = []

  readonly source = (signal: AbortSignal): Promise<readonly HealthLine[]> => {
    this.signals.push(signal)
    return new Promise(resolve => this.#answers.push(resolve))
  }

  async answer(question: number, text: string): Promise<void> {
    this.#answers[question]?.([{name: 'engine', state: 'ok', text}])
    await settled()
  }
}

describeOnEngine('what is loaded while somebody looks', () => {
  const table = useTable()
  let stage: WatchStage
  let health: LateHealth

  beforeEach(async () => {
    stage = new WatchStage(table)
    health = new LateHealth()
    await putBucket(stage.tenant, {entity: 'ada', resource: 'r', limits})
  })

  const started = async () => {
    const watch = stage.open({health: health.source})
    await watch.start()
    watch.setPaused(true) // polls have no timer then: those that are left belong to what is looked at
    watch.setPaused(false)
    await pollNumber(watch, 2)
    return watch
  }

  it('health that was left and opened again is one row of questions, whichever answer is late', async () => {
    const watch = await started()
    watch.watchHealth(true)
    watch.watchHealth(false)
    watch.watchHealth(true)
    expect(health.signals.map(({aborted}) => aborted)).toEqual([true, false])
    await health.answer(0, 'of the first visit')
    expect(watch.knowledge().health).toBeUndefined()
    expect(stage.timers.delays).toEqual([2000])
    await health.answer(1, 'of the second visit')
    expect(watch.knowledge().health?.[0]?.text).toBe('of the second visit')
    expect(stage.timers.delays.toSorted()).toEqual([15_000, 2000])
    await watch.stop()
    expect(stage.timers.delays).toEqual([])
  })

  it('health has a line about buckets that cannot be read', async () => {
    const {PK, SK} = keys.bucket(stage.tenant.namespace, 'ada', 'r', 0)
    const Key = {PK: {S: PK}, SK: {S: SK}}
    await table.transport.send('UpdateItem', {TableName: table.name, Key, UpdateExpression: 'REMOVE rf'})
    const watch = await started()
    watch.watchHealth(true)
    await health.answer(0, 'up')
    expect(watch.knowledge().health?.slice(1)).toEqual([
      expect.objectContaining({name: 'polls', state: 'ok'}),
      {name: 'buckets', state: 'warn', text: '1 unreadable: their items hold no state'},
    ])
    await watch.stop()
  })

  it('stopping does not wait for health that nobody answers, and asks no more', async () => {
    const watch = await started()
    watch.watchHealth(true)
    await watch.stop()
    expect(health.signals[0]?.aborted).toBe(true)
    await health.answer(0, 'too late')
    expect(watch.knowledge().health).toBeUndefined()
    expect(stage.timers.delays).toEqual([])
  })

  it.each(['usage', 'audit', 'limits'])('stopping does not wait for a detail whose %s nobody answers', async part => {
    const usual = stage.faults
    const unanswered: unknown[] = []
    const marks: Record<string, string> = {usage: '#USAGE#', audit: 'AUDIT#', limits: '#CONFIG'}
    const transport = {
      send: ((operation, input, options) => {
        if (!JSON.stringify(input).includes(marks[part] ?? '')) return usual.send(operation, input, options)
        unanswered.push(options?.signal)
        return new Promise(() => {})
      }) as typeof usual.send,
    }
    const watch = stage.open({table: {...stage.tenant, transport}})
    await watch.start()
    watch.look('ada#r')
    await settled()
    await watch.stop()
    expect(watch.knowledge().detail).toBeUndefined()
    expect(unanswered.length).toBeGreaterThan(0)
    for (const signal of unanswered) expect(signal).toMatchObject({aborted: true})
  })

  it('a detail is loaded again while it is open, not after it was closed', async () => {
    const watch = await started()
    watch.look('ada#r')
    await until(watch, () => watch.knowledge().detail !== undefined)
    const loadedAtMs = watch.knowledge().detail?.loadedAtMs ?? 0
    expect(stage.timers.delays).toContain(20_000)
    stage.timers.advance(20_000)
    await until(watch, () => watch.knowledge().detail?.loadedAtMs === loadedAtMs + 20_000)
    watch.look(undefined)
    expect(stage.timers.delays).not.toContain(20_000)
    await watch.stop()
  })

  it('a detail that is refreshed or left while it is loaded counts for nothing', async () => {
    const watch = await started()
    stage.faults.start({kind: 'late answer', at: 1, times: 100})
    watch.look('ada#r')
    watch.look(undefined)
    watch.look('ada#r')
    stage.faults.stop()
    await until(watch, () => watch.knowledge().detail !== undefined)
    expect(stage.timers.delays.filter(delay => delay === 20_000)).toHaveLength(1)
    await watch.stop()
    expect(stage.timers.delays).toEqual([])
  })

  it('a pause is one for these too', async () => {
    const watch = await started()
    watch.look('ada#r')
    await until(watch, () => watch.knowledge().detail !== undefined)
    watch.setPaused(true)
    const {length} = stage.faults.calls
    stage.timers.advance(20_000)
    await settled()
    expect(stage.faults.calls).toHaveLength(length)
    watch.setPaused(false)
    await pollNumber(watch, 3)
    const before = watch.knowledge().detail
    stage.timers.advance(20_000)
    await until(watch, () => watch.knowledge().detail !== before)
    await watch.stop()
  })

  it('stopping waits until a poll in flight has let go of its request', async () => {
    let hasEnded = false
    const usual = stage.faults
    const transport = {
      send: (async (operation, input, options) => {
        try {
          return await usual.send(operation, input, options)
        } finally {
          if (options?.signal?.aborted) {
            await settled()
            hasEnded = true
          }
        }
      }) as typeof usual.send,
    }
    const watch = stage.open({table: {...stage.tenant, transport}})
    await watch.start()
    usual.start({kind: 'late answer', at: 1, operation: 'Query'})
    watch.pollNow()
    await watch.stop()
    expect(hasEnded).toBe(true)
    usual.release()
  })
})

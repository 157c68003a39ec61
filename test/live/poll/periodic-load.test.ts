import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import type {HealthLine} from '../../../src/lib/live/model/model.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {putBucket} from '../../repository/namespace-table.js'
import {pollNumber, settled, until, WatchFixture} from '../watch-fixture.js'

const limits = parseLimits(['rpm=100'])

/** Health that responds when the test lets it. */
class LateHealth {
  readonly signals: AbortSignal[] = []
  readonly #responses: ((lines: readonly HealthLine[]) => void)[] = []

  readonly source = (signal: AbortSignal): Promise<readonly HealthLine[]> => {
    this.signals.push(signal)
    return new Promise(resolve => this.#responses.push(resolve))
  }

  async respond(request: number, text: string): Promise<void> {
    this.#responses[request]?.([{name: 'engine', state: 'ok', text}])
    await settled()
  }
}

describeOnBoth('health and details, loaded periodically', {}, table => {
  let fixture: WatchFixture
  let health: LateHealth

  beforeEach(async () => {
    fixture = new WatchFixture(table)
    health = new LateHealth()
    await putBucket(fixture.tenant, {entity: 'ada', resource: 'r', limits})
  })

  const started = async () => {
    const watch = fixture.open({health: health.source})
    await watch.start()
    watch.setPaused(true)
    watch.setPaused(false)
    await pollNumber(watch, 2)
    return watch
  }

  it('ignores a late health response after health was closed and opened again', async () => {
    const watch = await started()
    watch.watchHealth(true)
    watch.watchHealth(false)
    watch.watchHealth(true)
    expect(health.signals.map(({aborted}) => aborted)).toEqual([true, false])
    await health.respond(0, 'first request')
    expect(watch.data().health).toBeUndefined()
    expect(fixture.timers.delays).toEqual([2000])
    await health.respond(1, 'second request')
    expect(watch.data().health?.[0]?.text).toBe('second request')
    expect(fixture.timers.delays.toSorted()).toEqual([15_000, 2000])
    await watch.stop()
    expect(fixture.timers.delays).toEqual([])
  })

  it('adds a line about unreadable buckets to health', async () => {
    const {PK, SK} = keys.bucket(fixture.tenant.namespace, 'ada', 'r', 0)
    const Key = {PK: {S: PK}, SK: {S: SK}}
    await table.transport.send('UpdateItem', {TableName: table.name, Key, UpdateExpression: 'REMOVE rf'})
    const watch = await started()
    watch.watchHealth(true)
    await health.respond(0, 'up')
    expect(watch.data().health?.slice(1)).toEqual([
      expect.objectContaining({name: 'polls', state: 'ok'}),
      {name: 'buckets', state: 'warn', text: '1 unreadable: their items have no state'},
    ])
    await watch.stop()
  })

  it('does not wait for health that never responds when it stops, and sends no further request', async () => {
    const watch = await started()
    watch.watchHealth(true)
    await watch.stop()
    expect(health.signals[0]?.aborted).toBe(true)
    await health.respond(0, 'too late')
    expect(watch.data().health).toBeUndefined()
    expect(fixture.timers.delays).toEqual([])
  })

  it.each(['usage', 'audit', 'limits'])(
    'does not wait for a detail whose %s never respond when it stops',
    async part => {
      const usual = fixture.faults
      const unanswered: unknown[] = []
      const marks: Record<string, string> = {usage: '#USAGE#', audit: 'AUDIT#', limits: '#CONFIG'}
      const transport = {
        send: ((operation, input, options) => {
          if (!JSON.stringify(input).includes(marks[part] ?? '')) return usual.send(operation, input, options)
          unanswered.push(options?.signal)
          return new Promise(() => {})
        }) as typeof usual.send,
      }
      const watch = fixture.open({table: {...fixture.tenant, transport}})
      await watch.start()
      watch.setDetail('ada#r')
      await settled()
      await watch.stop()
      expect(watch.data().detail).toBeUndefined()
      expect(unanswered.length).toBeGreaterThan(0)
      for (const signal of unanswered) expect(signal).toMatchObject({aborted: true})
    },
  )

  it('reloads a detail while it is open, and stops after it was closed', async () => {
    const watch = await started()
    watch.setDetail('ada#r')
    await until(watch, () => watch.data().detail !== undefined)
    const loadedAtMs = watch.data().detail?.loadedAtMs ?? 0
    expect(fixture.timers.delays).toContain(20_000)
    fixture.timers.advance(20_000)
    await until(watch, () => watch.data().detail?.loadedAtMs === loadedAtMs + 20_000)
    watch.setDetail(undefined)
    expect(fixture.timers.delays).not.toContain(20_000)
    await watch.stop()
  })

  it('ignores a detail that was reloaded or closed while loading', async () => {
    const watch = await started()
    fixture.faults.start({kind: 'late answer', at: 1, times: 100})
    watch.setDetail('ada#r')
    watch.setDetail(undefined)
    watch.setDetail('ada#r')
    fixture.faults.stop()
    await until(watch, () => watch.data().detail !== undefined)
    expect(fixture.timers.delays.filter(delay => delay === 20_000)).toHaveLength(1)
    await watch.stop()
    expect(fixture.timers.delays).toEqual([])
  })

  it('loads nothing while polls are paused', async () => {
    const watch = await started()
    watch.setDetail('ada#r')
    await until(watch, () => watch.data().detail !== undefined)
    watch.setPaused(true)
    const {length} = fixture.faults.calls
    fixture.timers.advance(20_000)
    await settled()
    expect(fixture.faults.calls).toHaveLength(length)
    watch.setPaused(false)
    await pollNumber(watch, 3)
    const before = watch.data().detail
    fixture.timers.advance(20_000)
    await until(watch, () => watch.data().detail !== before)
    await watch.stop()
  })

  it('waits until a poll in flight has aborted its request when it stops', async () => {
    let hasEnded = false
    const usual = fixture.faults
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
    const watch = fixture.open({table: {...fixture.tenant, transport}})
    await watch.start()
    usual.start({kind: 'late answer', at: 1, operation: 'Query'})
    watch.pollNow()
    await watch.stop()
    expect(hasEnded).toBe(true)
    usual.release()
  })
})

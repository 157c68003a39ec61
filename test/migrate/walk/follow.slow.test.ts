import {expect, it} from 'vitest'
import {readMigration} from '../../../src/lib/migrate/walk/lease.js'
import type {StepProgress} from '../../../src/lib/migrate/walk/pass.js'
import {describeOnEngine, PATIENT_MS} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'
import {ENTITIES, excessOf, itemsFor, mostAdmitted, Traffic} from '../traffic.js'

const FOLLOW_MS = 60_000

/** Between two passes. */
const PAUSE_MS = 2_000

describeOnEngine('a run that follows clients of both layouts', () => {
  const scene = useOldTable(4, population => itemsFor('composite')(population))

  it('repeats passes, so that both sides together stay close to the limit', {timeout: PATIENT_MS}, async () => {
    const traffic = new Traffic(scene, 'composite', 7)
    const pauses: number[] = []
    const passes = new Set<number>()
    let beganMs = 0
    let longestMs = 0
    scene.transport = traffic.transport
    scene.sleep = async ms => {
      // Other pauses: for an index, or before a retry.
      if (ms !== PAUSE_MS || passes.size === 0) {
        scene.nowMs += ms
        return
      }
      pauses.push(ms)
      // From the end of the pass before last, so that both passes are part of it.
      longestMs = Math.max(longestMs, scene.nowMs + ms - (beganMs || scene.nowMs))
      beganMs = scene.nowMs
      const {leaseUntilMs = 0} = (await readMigration({...scene.table, transport: scene.own})) ?? {}
      expect(leaseUntilMs).toBeGreaterThan(scene.nowMs)
      scene.nowMs += ms
      for (const entity of ENTITIES) {
        while (await traffic.acquireOld(entity, 3));
        while (await traffic.acquireNew(entity, 3));
      }
    }
    const onProgress = ({step, pass}: StepProgress) => {
      if (step === 'catch-up') passes.add(pass)
    }
    const startMs = scene.nowMs
    expect(await scene.migrate({followMs: FOLLOW_MS, onProgress})).toMatchObject({finished: true})
    expect(scene.nowMs - startMs).toBeGreaterThan(FOLLOW_MS)
    expect(pauses.length).toBeGreaterThan(10)
    expect(passes.size).toBeGreaterThan(pauses.length)
    traffic.isOn = false
    expect(await scene.migrate()).toMatchObject({settled: true})
    expect((await scene.verify()).clean).toBe(true)
    expect(longestMs).toBeLessThan(12_000)
    for (const entity of ENTITIES) {
      const admissions = traffic.admissions.get(entity) ?? []
      expect(excessOf(admissions)).toBeLessThanOrEqual(mostAdmitted(longestMs))
    }
  })
})

describeOnEngine('following', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('repeats passes even if there is nothing to do, and can be stopped during a pause', async () => {
    await scene.migrate()
    const stop = new AbortController()
    let pauses = 0
    scene.sleep = async ms => {
      scene.nowMs += ms
      if (ms === PAUSE_MS && ++pauses === 3) stop.abort()
    }
    const run = scene.migrate({followMs: FOLLOW_MS, signal: stop.signal})
    await expect(run).rejects.toMatchObject({code: 'dynamo.aborted'})
    expect(await readMigration(scene.table)).toMatchObject({step: 'catch-up', leaseUntilMs: 0})
    expect(await scene.migrate({followMs: 4_000})).toMatchObject({finished: true, resumed: true, settled: true})
    expect(pauses).toBe(5)
    expect((await scene.verify()).clean).toBe(true)
  })
})

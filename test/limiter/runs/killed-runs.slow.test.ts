import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {expect, inject, it} from 'vitest'
import {endDueRuns, listRuns} from '../../../src/lib/repository/runs/runs.js'
import {runEntity} from '../../../src/lib/schema/run-record.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import type {RunWorkerTask} from '../fixtures/run-worker.js'

const RUNS = 1000
const WORKERS = 3
/** A worker has at most 4 delegations of at most 99 tokens under way. */
const MOST_LOST = 4 * 99
const ALLOWANCE = 1_000_000

describeOnEngine('runs of processes that are killed', {timeout: 900_000}, () => {
  const table = useTable()

  it('S14 add up, and nothing is left after their time', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'llm'}, `tpd=${ALLOWANCE}/day@UTC`)
    const tenant = {...scene.tenant, clock: Date.now}
    const task: RunWorkerTask = {
      ...{endpoint: inject('engineEndpoint'), stack: table.name, namespaceId: scene.namespace},
    }
    const workers: ChildProcess[] = []
    const start = async (at: number): Promise<void> => {
      const worker = fork(join(import.meta.dirname, '../fixtures/run-worker.ts'), {
        execArgv: ['--import', 'tsx'],
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      })
      workers[at] = worker
      worker.send(task)
      await once(worker, 'message')
    }
    const count = async () =>
      (await listRuns(tenant)).records.length + (await listRuns(tenant, {ended: true})).records.length
    let kills = 0
    try {
      for (let at = 0; at < WORKERS; at++) await start(at)
      while ((await count()) < RUNS) {
        await sleep(300 + Math.random() * 1000)
        const at = Math.floor(Math.random() * WORKERS)
        workers[at]?.kill('SIGKILL')
        kills++
        await start(at)
      }
    } finally {
      for (const worker of workers) worker.kill('SIGKILL')
      kills += WORKERS
    }
    await sleep(2500)
    for (let tries = 0; (await listRuns(tenant)).records.length > 0 && tries < 10; tries++) await endDueRuns(tenant)
    const {records} = await listRuns(tenant, {ended: true})
    expect((await listRuns(tenant)).records).toEqual([])
    let [spent, returned] = [0n, 0n]
    for (const {id, entity, granted, end} of records) {
      const back = end?.returns[0]
      const used = end?.spent.get('tpd') ?? 0n
      expect(used + (back?.returnedMilli ?? 0n) + (back?.lapsedMilli ?? 0n), id).toBe(granted.get('tpd'))
      const left = await scene.totals(runEntity(id), 'llm', 'tpd')
      expect(left, id).toEqual({tokens: 0, consumed: Number(used) / 1000})
      if (entity !== 'user-1') continue
      spent += used
      returned += back?.returnedMilli ?? 0n
    }
    const {tokens, consumed} = await scene.totals('user-1', 'llm', 'tpd')
    const lost = consumed - Number(spent) / 1000
    console.log(
      `${records.length} runs, ${kills} kills: ${Number(spent) / 1000} spent, ${Number(returned) / 1000} returned, ${lost} charged without a run`,
    )
    expect(records.length).toBeGreaterThanOrEqual(RUNS)
    expect(tokens + consumed).toBe(ALLOWANCE)
    expect(lost).toBeGreaterThanOrEqual(0)
    expect(lost).toBeLessThanOrEqual(kills * MOST_LOST)
  })
})

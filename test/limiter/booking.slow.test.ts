import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {join} from 'node:path'
import {expect, inject, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import type {StartedWaiter, WaitingWorkerTask} from './fixtures/waiting-worker.js'

const PROCESSES = 4
const WAITERS = 200
const [CAPACITY, PER_SECOND] = [20, 60]

describeOnEngine('processes that wait for one rate', {timeout: 120_000}, () => {
  const table = useTable()

  it('L7 write once for each waiting request at most, and start none before its promised instant', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, `rpm=${PER_SECOND}/sec:${CAPACITY}`)
    const task: WaitingWorkerTask = {
      ...{endpoint: inject('engineEndpoint'), stack: table.name, namespaceId: scene.namespace},
      ...{waiters: WAITERS / PROCESSES, withinMs: 2000},
    }
    const workers = Array.from({length: PROCESSES}, () =>
      fork(join(import.meta.dirname, 'fixtures/waiting-worker.ts'), {execArgv: ['--import', 'tsx']}),
    )
    try {
      await Promise.all(workers.map(worker => once(worker, 'message')))
      const answers = workers.map(async (worker: ChildProcess) => {
        worker.send(task)
        const [started] = await once(worker, 'message')
        return started as StartedWaiter[]
      })
      const started = (await Promise.all(answers)).flat()
      const late = started.map(({promisedMs, startedMs}) => startedMs - promisedMs).sort((a, b) => a - b)
      const writes = (await scene.totals('user-1', 'gpt-4', 'wcu')).consumed
      console.log(
        `${started.length} waiters, ${writes} writes; start after the promised instant: ` +
          `median ${late[Math.floor(late.length / 2)]} ms, p99 ${late[Math.floor(late.length * 0.99)]} ms`,
      )
      expect(started).toHaveLength(WAITERS)
      expect(writes).toBeLessThanOrEqual(1.2 * WAITERS)
      // Timers may fire a millisecond early.
      expect(Math.min(...late)).toBeGreaterThanOrEqual(-1)
      const sum = started.reduce((total, {tokens}) => total + tokens, 0)
      expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(sum)
    } finally {
      for (const worker of workers) worker.kill('SIGKILL')
    }
  })
})

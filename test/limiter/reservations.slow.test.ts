import {fork} from 'node:child_process'
import {once} from 'node:events'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {expect, inject, it} from 'vitest'
import {HolderRecords} from '../../src/lib/repository/buckets/holders.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import type {ReservingTask} from './fixtures/reserving-process.js'
import {request} from './visit.js'

describeOnEngine('a process that is killed', {timeout: 300_000}, () => {
  const table = useTable()

  it('S13 L9 loses its reserved tokens to another that is refused', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpd=1000/day@UTC')
    const gateway = fork(join(import.meta.dirname, 'fixtures/reserving-process.ts'), {
      execArgv: ['--import', 'tsx'],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const records = new HolderRecords(scene.tenant)
    try {
      const task: ReservingTask = {
        ...{endpoint: inject('engineEndpoint'), stack: table.name, namespaceId: scene.namespace},
      }
      gateway.send(task)
      await once(gateway, 'message')
      while ((await records.reservations(await records.ids())).length === 0) await sleep(100)
    } finally {
      gateway.kill('SIGKILL')
    }
    await using limiter = scene.limiter({clock: Date.now})
    const ask = () => limiter.tryAcquire(request({tpd: 600}))
    expect((await ask()).admitted).toBe(false)
    const sinceMs = performance.now()
    while (!(await ask()).admitted) await sleep(500)
    console.log(`500 reserved tokens came back after ${((performance.now() - sinceMs) / 1000).toFixed(1)} s`)
    expect(await scene.totals('user-1', 'gpt-4', 'tpd')).toEqual({tokens: 400, consumed: 600})
  })
})

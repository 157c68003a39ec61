import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {type AddressInfo, createServer} from 'node:net'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {expect, inject, it} from 'vitest'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {seededRandom} from '../fixtures/seeded-random.js'
import {request} from '../visit.js'
import type {GatewayTask} from './gateway-process.js'
import {slotsIn} from './slots.js'

/** `ZAEL_TEST_SIZE=full` plays the two minutes of the documentation. Times in seconds. */
const SIZE =
  process.env.ZAEL_TEST_SIZE === 'full'
    ? {gateways: 8, callers: 4, capacity: 6, seconds: 120}
    : {gateways: 4, callers: 3, capacity: 4, seconds: 50}

/** Longer than the period in which a process must beat, in seconds. */
const LONG_STOP = 42

describeOnEngine('gateways that die and stop', {timeout: 600_000}, () => {
  const table = useTable()

  it('S12 L9 never have more calls in flight than slots, and lose none', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1M/min', `parallel=${SIZE.capacity}/inflight`)
    const random = seededRandom(7)
    let [inFlight, most, calls] = [0, 0, 0]
    /** Slots that a process may hold beyond its period, because it was stopped. */
    let mostStopped = 0
    const witness = createServer(socket => {
      most = Math.max(most, ++inFlight)
      let isOpen = true
      const end = () => {
        if (isOpen) inFlight--
        isOpen = false
      }
      socket.on('data', () => {
        end()
        socket.write('ok')
      })
      socket.on('close', end).on('error', end)
    })
    await once(witness.listen(0, '127.0.0.1'), 'listening')
    const task: GatewayTask = {
      ...{endpoint: inject('engineEndpoint'), stack: table.name, namespaceId: scene.namespace},
      ...{port: (witness.address() as AddressInfo).port, callers: SIZE.callers},
    }
    const start = (): ChildProcess => {
      const child = fork(join(import.meta.dirname, 'gateway-process.ts'), {
        execArgv: ['--import', 'tsx'],
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      })
      child.on('message', () => calls++)
      child.send(task)
      return child
    }
    const gateways = Array.from({length: SIZE.gateways}, start)
    try {
      const stopAt = Date.now() + SIZE.seconds * 1000
      let kills = 0
      let hasStoppedLong = false
      while (Date.now() < stopAt) {
        await sleep(1000 + random() * 3000)
        const at = Math.floor(random() * gateways.length)
        const gateway = gateways[at] as ChildProcess
        const draw = random()
        if (!hasStoppedLong && calls > 20) {
          hasStoppedLong = true
          mostStopped = SIZE.callers
          gateway.kill('SIGSTOP')
          setTimeout(() => gateway.kill('SIGCONT'), LONG_STOP * 1000).unref()
        } else if (draw < 0.6) {
          kills++
          gateway.kill('SIGKILL')
          gateways[at] = start()
        } else {
          gateway.kill('SIGSTOP')
          await sleep(1000 + random() * 4000)
          gateway.kill('SIGCONT')
        }
      }
      for (const gateway of gateways) gateway.kill('SIGKILL')
      expect(kills).toBeGreaterThan(3)
      expect(calls).toBeGreaterThan(50)
      expect(most).toBeGreaterThan(1)
      expect(most).toBeLessThanOrEqual(SIZE.capacity + mostStopped)
      await using limiter = scene.limiter({clock: Date.now})
      const sinceMs = Date.now()
      for (;;) {
        const all = await limiter.tryAcquire(request({rpm: 1, parallel: SIZE.capacity}))
        if (all.admitted) {
          await all.lease.commit()
          break
        }
        expect(all).toMatchObject({reason: 'in-flight'})
        await sleep(500)
      }
      const backSeconds = (Date.now() - sinceMs) / 1000
      console.log(
        `${calls} calls, at most ${most} of ${SIZE.capacity} in flight, ${kills} kills, all slots back after ${backSeconds.toFixed(1)} s`,
      )
      const slots = await slotsIn(scene, 'user-1', 'gpt-4')
      expect(slots?.limits.get('parallel')).toEqual({capacity: SIZE.capacity, free: SIZE.capacity})
      expect([...(slots?.accounts.keys() ?? [])]).toEqual([])
    } finally {
      for (const gateway of gateways) gateway.kill('SIGKILL')
      witness.close()
    }
  })
})

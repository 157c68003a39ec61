import {type ChildProcess, fork} from 'node:child_process'
import {once} from 'node:events'
import {type AddressInfo, createServer, type Socket} from 'node:net'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {expect, inject, it} from 'vitest'
import {HolderRecords} from '../../../src/lib/repository/buckets/holders.js'
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

/** More than all calls take. */
const QUOTA = 1_000_000

/** Of each call. */
const TOKENS = 10

/** Longer than the period in which a process must beat, in seconds. */
const LONG_STOP = 42

/** A process that is stopped for this long may lose its slots, and notices it soon after it continues, in ms. */
const [LOST_AFTER_MS, NOTICED_AFTER_MS] = [17_500, 5000]

describeOnEngine('gateways that die and stop', {timeout: 600_000}, () => {
  const table = useTable()

  it('S12 S13 L9 never have more calls in flight than slots, and lose neither slots nor reserved tokens', async () => {
    const scene = new Scene(table)
    const limits = ['rpm=1M/min', `tpd=${QUOTA}/day@UTC`, `parallel=${SIZE.capacity}/inflight`] as const
    await scene.configure({level: 'resource', resource: 'gpt-4'}, ...limits)
    const records = new HolderRecords(scene.tenant)
    const reserved = async () => records.reservations(await records.ids())
    const random = seededRandom(7)
    let [most, mostInTime, calls] = [0, 0, 0]
    /** By connection, the process that makes the call. */
    const inFlight = new Map<Socket, number>()
    /** The process that was stopped beyond its period: its calls do not count as calls in time. */
    let overdue: number | undefined
    const witness = createServer(socket => {
      const end = () => inFlight.delete(socket)
      socket.on('data', data => {
        const text = data.toString()
        const pid = /^pid (\d+)/.exec(text)?.[1]
        if (pid !== undefined) inFlight.set(socket, Number(pid))
        most = Math.max(most, inFlight.size)
        mostInTime = Math.max(mostInTime, [...inFlight.values()].filter(each => each !== overdue).length)
        if (!text.includes('done')) return
        end()
        socket.write('ok')
      })
      socket.on('close', end).on('error', end)
    })
    await once(witness.listen(0, '127.0.0.1'), 'listening')
    const task: GatewayTask = {
      ...{endpoint: inject('engineEndpoint'), stack: table.name, namespaceId: scene.namespace},
      ...{port: (witness.address() as AddressInfo).port, callers: SIZE.callers, tokens: TOKENS},
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
      let mostReserved = 0
      let stoppedLong: ChildProcess | undefined
      while (Date.now() < stopAt) {
        await sleep(1000 + random() * 3000)
        const at = Math.floor(random() * gateways.length)
        const gateway = gateways[at] as ChildProcess
        if (gateway === stoppedLong) continue
        const draw = random()
        mostReserved = Math.max(mostReserved, (await reserved()).length)
        if (!stoppedLong && calls > 20) {
          stoppedLong = gateway
          gateway.kill('SIGSTOP')
          const after = (ms: number, then: () => void) => setTimeout(then, ms).unref()
          after(LOST_AFTER_MS, () => {
            overdue = gateway.pid
          })
          after(LONG_STOP * 1000, () => gateway.kill('SIGCONT'))
          after(LONG_STOP * 1000 + NOTICED_AFTER_MS, () => {
            overdue = undefined
          })
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
      expect(mostInTime).toBeLessThanOrEqual(SIZE.capacity)
      expect(most).toBeLessThanOrEqual(SIZE.capacity + SIZE.callers)
      const leftReserved = (await reserved()).length
      await using limiter = scene.limiter({clock: Date.now})
      const sinceMs = performance.now()
      const secondsSince = () => (performance.now() - sinceMs) / 1000
      let [slotSeconds, tokenSeconds] = [0, 0]
      while (slotSeconds === 0 || tokenSeconds === 0) {
        const all = await limiter.tryAcquire(request({rpm: 1, parallel: SIZE.capacity}))
        if (all.admitted) {
          await all.lease.commit()
          slotSeconds ||= secondsSince()
        } else expect(all).toMatchObject({reason: 'in-flight'})
        // Refused, so that it looks for dead processes.
        if (tokenSeconds === 0) {
          expect((await limiter.tryAcquire(request({tpd: QUOTA, parallel: 0}))).admitted).toBe(false)
          if ((await reserved()).length === 0) tokenSeconds = secondsSince()
        }
        await sleep(500)
      }
      const {consumed} = await scene.totals('user-1', 'gpt-4', 'tpd')
      console.log(
        `${calls} calls, at most ${mostInTime} of ${SIZE.capacity} in flight (${most} with the calls of the process that was stopped for ${LONG_STOP} s), ${kills} kills, all slots back after ${slotSeconds.toFixed(1)} s`,
      )
      console.log(
        `at most ${mostReserved} stored reservations, ${leftReserved} at the end, all back after ${tokenSeconds.toFixed(1)} s; ${consumed} tokens charged for ${calls} calls of ${TOKENS}`,
      )
      expect(mostReserved).toBeGreaterThan(0)
      expect(consumed).toBeGreaterThanOrEqual(calls * TOKENS)
      // Calls that died in their first second, or were about to report their end, stay charged.
      expect(consumed).toBeLessThanOrEqual((calls + (kills + SIZE.gateways) * SIZE.callers) * TOKENS)
      const slots = await slotsIn(scene, 'user-1', 'gpt-4')
      expect(slots?.limits.get('parallel')).toEqual({capacity: SIZE.capacity, free: SIZE.capacity})
      expect([...(slots?.accounts.keys() ?? [])]).toEqual([])
    } finally {
      for (const gateway of gateways) gateway.kill('SIGKILL')
      witness.close()
    }
  })
})

import {setImmediate as nextTurn} from 'node:timers/promises'
import {beforeEach, expect, it} from 'vitest'
import {classifyError} from '../../src/lib/dynamo/classify.js'
import {Denied} from '../../src/lib/dynamo/errors.js'
import type {Operation} from '../../src/lib/dynamo/transport.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {readRefusals} from '../../src/lib/schema/refusal-counts.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PATIENT_MS} from '../helpers/table.js'
import {failure} from './visit.js'

const RESOURCE = 'gpt-4'
const of = (rpm: number) => ({entity: 'user-1', resource: RESOURCE, consume: {rpm}})
const DENIED = {name: 'AccessDeniedException', $metadata: {httpStatusCode: 400}}

async function untilAborted(operation: Operation, signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(classifyError(signal.reason, operation, {signal})))
  })
}

describeOnBoth('a namespace lookup that fails later', {}, table => {
  let scene: Scene
  let faults: FaultTransport
  let namespace: string
  let isDenied: boolean
  /** Never gets a response before its signal aborts, like a dripping response. */
  let hung: Operation | undefined
  let open: (timeoutMs: number) => RateLimiter
  let limiter: RateLimiter

  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    isDenied = false
    hung = undefined
    scene.transport = {
      send: async (operation, input, options) => {
        if (isDenied && operation === 'GetItem') throw classifyError(DENIED, operation, {sent: true})
        if (operation === hung) return untilAborted(operation, options?.signal)
        return faults.send(operation, input, options)
      },
    }
    const name = `failed-lookup-${scene.namespace}`
    const registered = await new Namespaces(scene.tenant).register(name)
    namespace = registered.namespace.id
    Object.assign(scene, {namespace})
    await scene.configure({level: 'resource', resource: RESOURCE}, 'rpm=100/min')
    // By name: a namespace given by its id is not looked up.
    const options = {stack: table.name, namespace: name, transport: scene.transport, onUnavailable: 'block'} as const
    open = timeoutMs => new RateLimiter({...options, clock: () => scene.nowMs, timeoutMs})
    limiter = open(PATIENT_MS)
  })

  /** The next request looks the namespace up again, and is denied. */
  async function failLookup(): Promise<void> {
    scene.nowMs += 30_000
    isDenied = true
    await expect(limiter.tryAcquire(of(1))).rejects.toBeInstanceOf(Denied)
    isDenied = false
  }

  async function stored() {
    const Key = wireKey(keys.bucket(namespace, 'user-1', RESOURCE, 0))
    return (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item ?? {}
  }

  it('loses no refusals: the next write carries them', async () => {
    await limiter.acquire(of(90))
    await limiter.tryAcquire(of(90))
    await failLookup()
    await limiter.acquire(of(1))
    expect([readRefusals(await stored()).requests, limiter.uncountedRefusals]).toEqual([1, 0])
    await limiter.close()
  })

  it('loses no refusals if the limiter is then closed', async () => {
    await limiter.acquire(of(90))
    await limiter.tryAcquire(of(90))
    await failLookup()
    await limiter.close()
    expect([readRefusals(await stored()).requests, limiter.uncountedRefusals]).toEqual([1, 0])
  })

  it.each(['the first lookup', 'a read of limits'])('L5 ends a hanging call at close: %s', async which => {
    const hasty = open(500)
    if (which === 'a read of limits') await hasty.resourceCapacity(RESOURCE)
    hung = which === 'a read of limits' ? 'BatchGetItem' : 'GetItem'
    expect(await failure(hasty.acquire(of(1)))).toMatchObject({code: 'limiter.unavailable'})
    await hasty.close()
  })

  it('L6 ends a hanging later lookup at close, and still counts refusals', async () => {
    const hasty = open(2_000)
    await hasty.acquire(of(90))
    await hasty.tryAcquire(of(90))
    scene.nowMs += 30_000
    hung = 'GetItem'
    const late = failure(hasty.acquire({...of(1), timeoutMs: 1}))
    expect(await late).toMatchObject({code: 'limiter.unavailable'})
    await hasty.close()
    expect([readRefusals(await stored()).requests, hasty.uncountedRefusals]).toEqual([1, 0])
  })

  it('loses no refund: close waits for it', async () => {
    const lease = await limiter.acquire(of(90))
    const order: string[] = []
    faults.start({kind: 'late arrival', at: 1, operation: 'UpdateItem'})
    const refund = lease.rollback().then(() => order.push('refunded'))
    await failLookup()
    const closing = limiter.close().then(() => order.push('closed'))
    await nextTurn()
    faults.stop()
    await Promise.all([refund, closing])
    expect(order).toEqual(['refunded', 'closed'])
  })
})

import {beforeEach, describe, expect, it} from 'vitest'
import {Denied, Unavailable} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {AcquireRequest} from '../../src/lib/limiter/request/options.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {attributes} from '../../src/lib/schema/attributes.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request, splitInto, warningsOf} from './visit.js'

const SOON = {settle: 'soon'} as const

const soon = (consume: Record<string, number>, entity?: string): AcquireRequest => ({
  ...request(consume, entity),
  ...SOON,
})

describeOnBoth("settle: 'soon'", {timeout: 60_000}, table => {
  let scene: Scene
  let limiter: RateLimiter
  beforeEach(async () => {
    scene = new Scene(table)
    limiter = scene.limiter()
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/day', 'tpm=1000/day')
  })

  const tpm = (entity = 'user-1', shards = 1) => scene.totals(entity, 'gpt-4', 'tpm', shards)
  const key = () => wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0))

  /** Calls of `work`, including its later settlements. */
  async function callsOf(work: () => Promise<unknown>): Promise<number> {
    await limiter.settled()
    const before = scene.calls.length
    await work()
    await limiter.settled()
    return scene.calls.length - before
  }

  /** Makes writes fail or wait from now on. */
  function disturb(send: (inner: Transport['send']) => Transport['send']): () => void {
    const {transport} = scene
    const disturbed = send((...args) => transport.send(...args))
    scene.transport = {
      send: ((operation, ...rest) =>
        operation === 'UpdateItem'
          ? disturbed(operation, ...rest)
          : transport.send(operation, ...rest)) as Transport['send'],
    }
    return () => {
      scene.transport = transport
    }
  }

  /** Makes writes wait until the returned function is called. */
  function hold(): () => void {
    let open = () => {}
    const opened = new Promise<void>(resolve => {
      open = resolve
    })
    disturb(
      inner =>
        (async (...args: Parameters<Transport['send']>) => {
          await opened
          return inner(...args)
        }) as Transport['send'],
    )
    return open
  }

  const failWith = (error: () => Error): (() => void) =>
    disturb(
      () =>
        (async () => {
          throw error()
        }) as Transport['send'],
    )

  it('resolves before the settlement is written', async () => {
    const lease = await limiter.acquire(soon({tpm: 100}))
    const go = hold()
    await lease.adjust({tpm: 20})
    await lease.release({tpm: 50})
    await lease.commit()
    expect(await tpm()).toEqual({tokens: 900, consumed: 100})
    go()
    await limiter.settled()
    expect(await tpm()).toEqual({tokens: 930, consumed: 70})
  })

  it('writes the settlements of many leases of a bucket once', async () => {
    const leases = await Promise.all(Array.from({length: 20}, () => limiter.acquire(soon({tpm: 10}))))
    const calls = await callsOf(async () => {
      for (const [at, lease] of leases.entries()) await lease.adjust({tpm: at % 2 === 0 ? 5 : -4})
    })
    expect(calls).toBe(1)
    expect(await tpm()).toEqual({tokens: 790, consumed: 210})
  })

  it('counts no further request', async () => {
    const lease = await limiter.acquire(soon({tpm: 10}))
    await lease.adjust({tpm: 5})
    await limiter.settled()
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key: key()})
    expect(Item?.[attributes.bucket.requests]).toEqual({N: '1'})
  })

  it('batches with an awaited settlement at once', async () => {
    const [patient, hasty] = [await limiter.acquire(soon({tpm: 10})), await limiter.acquire(request({tpm: 10}))]
    const calls = await callsOf(async () => {
      await patient.adjust({tpm: 30})
      await hasty.adjust({tpm: 5})
      expect(await tpm()).toMatchObject({consumed: 55})
    })
    expect(calls).toBe(1)
  })

  it('is the default of a limiter if configured, and a request may override it', async () => {
    limiter = scene.limiter(SOON)
    const [later, now] = [
      await limiter.acquire(request({tpm: 10})),
      await limiter.acquire({...request({tpm: 10}), settle: 'now'}),
    ]
    const before = scene.calls.length
    await later.adjust({tpm: 1})
    expect(scene.calls).toHaveLength(before)
    await now.adjust({tpm: 1})
    expect(await tpm()).toMatchObject({consumed: 22})
  })

  it.each([['later'], [''], [null], [true]])('rejects %j, for the limiter and for a request', async value => {
    const settle = value as never
    expect(() => scene.limiter({settle})).toThrow('settle must be "now" or "soon"')
    const error = await failure(limiter.acquire({...request({tpm: 1}), settle}))
    expect(error).toMatchObject({code: 'option.invalid', details: {option: 'settle'}})
  })

  it('writes accepted settlements at close, and waits for them', async () => {
    const lease = await limiter.acquire(soon({tpm: 100}))
    await lease.adjust({tpm: -40})
    const go = hold()
    let isClosed = false
    const closing = limiter.close().then(() => {
      isClosed = true
    })
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(isClosed).toBe(false)
    go()
    await closing
    expect(await tpm()).toEqual({tokens: 940, consumed: 60})
  })

  it('accepts nothing after close begins that is not written', async () => {
    const lease = await limiter.acquire(soon({tpm: 100}))
    const closing = limiter.close()
    await lease.adjust({tpm: 5})
    expect(await tpm()).toMatchObject({consumed: 105})
    await closing
    failWith(() => new Denied('UpdateItem'))
    expect(await failure(lease.adjust({tpm: 5}))).toBeInstanceOf(Denied)
  })

  it('is not affected by a signal that aborts after the admission', async () => {
    const controller = new AbortController()
    const lease = await limiter.acquire({...soon({tpm: 100}), signal: controller.signal})
    await lease.adjust({tpm: 7})
    controller.abort()
    await limiter.settled()
    expect(await tpm()).toMatchObject({consumed: 107})
  })

  it('writes accepted settlements before a request is refused', async () => {
    const lease = await limiter.acquire(soon({tpm: 1000}))
    await lease.release({tpm: 400})
    await limiter.acquire(request({tpm: 400}))
    expect(await tpm()).toEqual({tokens: 0, consumed: 1000})
    scene.nowMs += 5000
    await lease.release({tpm: 600})
    await limiter.acquire(request({tpm: 600}))
    expect(await tpm()).toMatchObject({consumed: 1000})
  })

  it('batches accepted settlements with a request that fits', async () => {
    const lease = await limiter.acquire(soon({tpm: 100}))
    await limiter.acquire(request({tpm: 1}))
    const written: string[] = []
    disturb(
      inner =>
        ((...args: Parameters<Transport['send']>) => {
          written.push(JSON.stringify(args[1]))
          return inner(...args)
        }) as Transport['send'],
    )
    await lease.adjust({tpm: 5})
    await limiter.acquire(request({tpm: 1}))
    await limiter.settled()
    // Only an admission counts a request.
    expect(written.map(each => each.includes(`"${attributes.bucket.requests}"`))).toEqual([true])
    expect(await tpm()).toMatchObject({consumed: 107})
  })

  describe('balances of the lease', () => {
    it('include accepted settlements; refunds raise no balance before they are written (L6)', async () => {
      const lease = await limiter.acquire(soon({tpm: 100}))
      const go = hold()
      await lease.adjust({tpm: 20})
      expect(lease.consumed).toEqual({tpm: 120})
      expect(lease.limits.tpm?.available).toBe(880)
      await lease.release({tpm: 50})
      expect(lease.consumed).toEqual({tpm: 70})
      expect(lease.limits.tpm?.available).toBe(880)
      expect(await failure(lease.release({tpm: 71}))).toMatchObject({code: 'lease.over-release'})
      go()
      await limiter.settled()
      expect(lease.consumed).toEqual({tpm: 70})
      expect(lease.limits.tpm?.available).toBe(930)
    })

    it('still lack accepted charges when more is taken of the limit', async () => {
      const lease = await limiter.acquire(soon({tpm: 100}))
      await limiter.acquire(request({tpm: 1}))
      await lease.adjust({tpm: 20})
      await lease.consume({tpm: 10})
      expect(lease.consumed).toEqual({tpm: 130})
      expect(lease.limits.tpm?.available).toBe(869)
      await limiter.settled()
      expect(lease.consumed).toEqual({tpm: 130})
      expect(lease.limits.tpm?.available).toBe(869)
      expect(await tpm()).toMatchObject({tokens: 869})
    })

    it.each([[20], [-30]])('refund exactly the holding once, on rollback after %i (S6)', async delta => {
      const lease = await limiter.acquire(soon({rpm: 1, tpm: 100}))
      await lease.adjust({tpm: delta})
      await lease.rollback()
      expect(await tpm()).toEqual({tokens: 1000, consumed: 0})
      expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(0)
      await limiter.close()
      expect(await tpm()).toEqual({tokens: 1000, consumed: 0})
    })

    it('skip the refund of tokens whose charge fails (S6)', async () => {
      const lease = await limiter.acquire(soon({tpm: 100}))
      const repair = failWith(() => new Denied('UpdateItem'))
      const warnings = await warningsOf(async () => {
        await lease.adjust({tpm: 50})
        const released = lease.release({tpm: 150})
        await new Promise(resolve => setTimeout(resolve, 5))
        repair()
        await released
        await limiter.settled()
        expect(await failure(lease.release({tpm: 1}))).toMatchObject({code: 'lease.over-release'})
      })
      expect(warnings).toMatchObject([{code: 'ZAEL_SETTLE'}])
      expect(await tpm()).toEqual({tokens: 1000, consumed: 0})
      expect(lease.consumed).toEqual({tpm: 0})
    })
  })

  describe('when the write fails', () => {
    let unhandled: unknown[]
    const noteUnhandled = (reason: unknown) => unhandled.push(reason)
    beforeEach(() => {
      unhandled = []
      limiter = scene.limiter({sleep: async () => {}})
      process.on('unhandledRejection', noteUnhandled)
      return () => void process.off('unhandledRejection', noteUnhandled)
    })

    /** Both levels of two settlements fail. */
    async function failTwice(lease: Lease, error: () => Error): Promise<Array<Error & {code?: string}>> {
      const repair = failWith(error)
      const warnings = await warningsOf(async () => {
        await lease.adjust({tpm: 20})
        await lease.adjust({tpm: -30})
        await limiter.settled()
      })
      repair()
      return warnings
    }

    it('warns once, leaves nothing unhandled, and can refund the whole holding', async () => {
      await scene.entity('user-1', 'acme')
      const lease = await limiter.acquire(soon({tpm: 100}))
      expect(lease.parent).toBe('acme')
      const warnings = await failTwice(lease, () => new Denied('UpdateItem'))
      expect(warnings).toMatchObject([{name: 'ZaelWarning', code: 'ZAEL_SETTLE'}])
      expect(unhandled).toEqual([])
      expect(lease.consumed).toEqual({tpm: 100})
      expect(lease.limits.tpm?.available).toBe(900)
      await lease.rollback()
      expect(await tpm()).toEqual({tokens: 1000, consumed: 0})
      expect(await tpm('acme')).toEqual({tokens: 1000, consumed: 0})
    })

    it.each([
      ['soon', () => new Denied('UpdateItem')],
      ['now', () => new Unavailable('UpdateItem', false)],
    ] as const)(
      'S5 refunds once the tokens of a charge that was accepted and failed, settled %s',
      async (settle, error) => {
        await scene.entity('user-1', 'acme')
        limiter = scene.limiter({onUnavailable: 'allow', sleep: async () => {}})
        const lease = await limiter.acquire({...request({tpm: 100}), settle})
        const repair = failWith(error)
        await warningsOf(async () => {
          await lease.adjust({tpm: 50})
          await limiter.settled()
        })
        repair()
        expect(lease.consumed).toEqual({tpm: 100})
        await lease.release({tpm: 120})
        await lease.release({tpm: 30})
        expect(lease.consumed).toEqual({tpm: 0})
        expect(await failure(lease.release({tpm: 1}))).toMatchObject({code: 'lease.over-release'})
        await limiter.settled()
        expect(await tpm()).toEqual({tokens: 1000, consumed: 0})
        expect(await tpm('acme')).toEqual({tokens: 1000, consumed: 0})
      },
    )

    it('does not repeat an uncertain refund (S6)', async () => {
      const lease = await limiter.acquire(soon({tpm: 100}))
      const warnings = await failTwice(lease, () => new Unavailable('UpdateItem', true))
      expect(warnings).toHaveLength(1)
      expect(unhandled).toEqual([])
      await lease.rollback()
      expect(await tpm()).toEqual({tokens: 970, consumed: 30})
    })

    /** More failures than the attempts of one write. */
    function failForAWhile(): void {
      let failures = 0
      disturb(
        inner =>
          (async (...args: Parameters<Transport['send']>) => {
            if (++failures <= 8) throw new Unavailable('UpdateItem', false)
            return inner(...args)
          }) as Transport['send'],
      )
    }

    it('retries through a short outage', async () => {
      const lease = await limiter.acquire(soon({tpm: 100}))
      failForAWhile()
      const warnings = await warningsOf(async () => {
        await lease.adjust({tpm: 20})
        await limiter.settled()
      })
      expect(warnings).toEqual([])
      expect(await tpm()).toMatchObject({consumed: 120})
    })

    it('waits for retries at close', async () => {
      const lease = await limiter.acquire(soon({tpm: 100}))
      failForAWhile()
      await lease.adjust({tpm: 20})
      await limiter.close()
      expect(await tpm()).toMatchObject({consumed: 120})
    })
  })

  it('settles both levels of a cascade', async () => {
    await scene.entity('user-1', 'acme')
    const lease = await limiter.acquire(soon({tpm: 100}))
    const other = await limiter.acquire(soon({tpm: 100}))
    const calls = await callsOf(async () => {
      await lease.adjust({tpm: -60})
      await other.adjust({tpm: 10})
    })
    expect(calls).toBe(2)
    expect(await tpm()).toMatchObject({consumed: 150})
    expect(await tpm('acme')).toMatchObject({consumed: 150})
  })

  it('settles the shards that gave the tokens (S8)', async () => {
    await limiter.acquire(request({tpm: 1}))
    await splitInto(scene, 2)
    limiter = scene.limiter()
    const lease = await limiter.acquire(soon({tpm: 900}))
    await lease.release({tpm: 700})
    await limiter.settled()
    expect(await tpm('user-1', 2)).toEqual({tokens: 799, consumed: 201})
    for (const {state} of await scene.shards('user-1', 'gpt-4', 2))
      expect(state.limits.get('tpm')?.tokensMilli).toBeLessThanOrEqual(500_000n)
  })

  it('settles every resource of a request', async () => {
    await scene.configure({level: 'resource', resource: 'embeddings'}, 'tpm=1000/day')
    const lease = await limiter.acquire({...soon({tpm: 100}), resources: {embeddings: {tpm: 50}}})
    const calls = await callsOf(async () => {
      await lease.adjust({tpm: 1})
      await lease.resources('embeddings').adjust({tpm: 2})
      await lease.commit()
    })
    expect(calls).toBe(2)
    expect(await tpm()).toMatchObject({consumed: 101})
    expect(await scene.totals('user-1', 'embeddings', 'tpm')).toMatchObject({consumed: 52})
  })

  it('changes only the counters of a bypassed entity', async () => {
    await limiter.acquire(request({tpm: 1}))
    await new NamespaceRepository(scene.tenant, undefined).setAccess(
      {level: 'entity', entity: 'user-1', resource: 'gpt-4'},
      'bypass',
    )
    scene.nowMs += 1001
    const lease = await limiter.acquire(soon({tpm: 100}))
    expect(lease.bypassed).toBe(true)
    const {available} = lease.limits.tpm as {available: number}
    await lease.adjust({tpm: 11})
    expect(lease.consumed).toEqual({tpm: 111})
    expect(lease.limits.tpm?.available).toBe(available)
    await limiter.settled()
    expect(await tpm()).toMatchObject({consumed: 112, tokens: 999})
  })

  it('does not offset a charge against a refund to a deleted bucket (S6)', async () => {
    const [more, less] = [await limiter.acquire(soon({tpm: 100})), await limiter.acquire(soon({tpm: 100}))]
    await more.adjust({tpm: 60})
    await less.adjust({tpm: -60})
    const go = hold()
    await table.transport.send('DeleteItem', {TableName: table.name, Key: key()})
    await scene.limiter({transport: table.transport}).acquire(request({tpm: 500}))
    go()
    await limiter.settled()
    expect(await tpm()).toEqual({tokens: 440, consumed: 560})
  })

  it('refunds nothing to a newer incarnation of the bucket', async () => {
    const lease = await limiter.acquire(soon({tpm: 100}))
    await lease.release({tpm: 60})
    await table.transport.send('DeleteItem', {TableName: table.name, Key: key()})
    await scene.limiter().acquire(request({tpm: 500}))
    await limiter.settled()
    expect(await tpm()).toEqual({tokens: 500, consumed: 500})
  })
})

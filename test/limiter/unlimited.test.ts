import {beforeEach, describe, expect, it} from 'vitest'
import {warnUnlimited} from '../../src/lib/limiter/refusal/errors.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {syncLimits} from '../repository/limits/sync-limits.js'
import {failure, isAdmitted, request, splitInto} from './visit.js'

const resource = {level: 'resource', resource: 'gpt-4'} as const
const own = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const

describeOnBoth('a requested limit that is not configured', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(resource, 'tpm=100/min')
  })

  it('is listed as unlimited; the others are charged and refuse', async () => {
    const limiter = scene.limiter()
    const decision = await limiter.tryAcquire(request({rpm: 1, tpm: 60}))
    if (!decision.admitted) throw new Error('refused')
    expect(decision.unlimited).toEqual(['rpm'])
    expect(decision.lease).toMatchObject({unlimited: ['rpm'], consumed: {tpm: 60}, isMetered: true})
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 40, consumed: 60})
    expect(await limiter.tryAcquire(request({rpm: 1, tpm: 60}))).toMatchObject({admitted: false, reason: 'exceeded'})
    expect(await limiter.check(request({rpm: 1, tpm: 60}))).toMatchObject({admitted: false, unlimited: ['rpm']})
    expect(await limiter.check(request({rpm: 1, tpm: 1}))).toMatchObject({admitted: true, unlimited: ['rpm']})
  })

  it('costs no further call once the configuration is known', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1, tpm: 1}))
    await limiter.acquire(request({rpm: 1, tpm: 1}))
    scene.calls.length = 0
    for (let count = 0; count < 3; count++) await limiter.acquire(request({rpm: 1, tpm: 1}))
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem', 'UpdateItem'])
    for (let count = 0; count < 3; count++) await limiter.acquire(request({rpm: 1}))
    await limiter.settled()
    expect(scene.calls).toHaveLength(6)
  })

  it('is an error without a charge in strict mode, of the limiter or the request', async () => {
    const strict = scene.limiter({strict: true})
    expect(await failure(strict.acquire(request({rpm: 1, tpm: 1})))).toMatchObject({code: 'limit.unknown'})
    expect(await failure(strict.check(request({rpm: 1})))).toMatchObject({code: 'limit.unknown'})
    const lease = await strict.acquire(request({tpm: 1}))
    expect(await failure(lease.adjust({rpm: 1}))).toMatchObject({code: 'limit.unknown'})
    expect(await failure(lease.consume({rpm: 1}))).toMatchObject({code: 'limit.unknown'})
    const lenient = await strict.acquire({...request({rpm: 1, tpm: 1}), strict: false})
    expect(lenient.unlimited).toEqual(['rpm'])
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toMatchObject({consumed: 2})
  })

  it('fails only the strict requests of a batch', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({tpm: 1}))
    const asked = [true, false, true, false].map(strict => limiter.acquire({...request({rpm: 1, tpm: 1}), strict}))
    const outcomes = await Promise.allSettled(asked)
    expect(outcomes.map(({status}) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'fulfilled'])
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toMatchObject({consumed: 3})
  })

  it('can be adjusted, released, taken again and rolled back without effect', async () => {
    const lease = await scene.limiter().acquire(request({rpm: 2, tpm: 10}))
    await lease.adjust({rpm: 5, tpm: 5})
    await lease.release({rpm: 2, tpm: 5})
    await lease.consume({rpm: 1, xpm: 1, tpm: 1})
    expect(lease).toMatchObject({unlimited: ['rpm', 'xpm'], consumed: {tpm: 11}})
    expect(await failure(lease.release({tpm: 12}))).toMatchObject({code: 'lease.over-release'})
    await lease.rollback()
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 100, consumed: 0})
  })

  it('is not refunded by an uncharged lease if it was added meanwhile', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 2, tpm: 10}))
    await scene.configure(resource, 'rpm=10/min', 'tpm=100/min')
    scene.nowMs += 60_000
    await lease.consume({rpm: 1})
    await lease.release({rpm: 1})
    await lease.release({rpm: 2})
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 10, consumed: 0})
  })

  it('is charged to a parent that has it', async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({...own, entity: 'team-1'}, 'rpm=2/min')
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 1, tpm: 1, xpm: 1}))
    expect(lease.unlimited).toEqual(['xpm'])
    await lease.adjust({rpm: 1})
    expect(await scene.totals('team-1', 'gpt-4', 'rpm')).toEqual({tokens: 0, consumed: 2})
    expect(await isAdmitted(limiter.acquire(request({rpm: 1, tpm: 1})))).toBe(false)
    await lease.release({rpm: 2})
    expect(await scene.totals('team-1', 'gpt-4', 'rpm')).toEqual({tokens: 2, consumed: 0})
  })

  describe('is known in strict mode if only the parent has it', () => {
    beforeEach(async () => {
      await scene.entity('user-1', 'team-1')
      await scene.configure({...own, entity: 'team-1'}, 'rpm=10/min')
    })

    const charged = async (entity: string, name: string) => (await scene.totals(entity, 'gpt-4', name)).consumed

    it('S10 charges it to the parent only, and to nobody if the parent refuses', async () => {
      const strict = scene.limiter({strict: true})
      expect(await strict.check(request({rpm: 1, tpm: 1}))).toMatchObject({admitted: true, unlimited: []})
      const lease = await strict.acquire(request({rpm: 4, tpm: 1}))
      expect(lease).toMatchObject({unlimited: [], consumed: {tpm: 1}, parent: 'team-1'})
      await lease.adjust({rpm: 2})
      await lease.consume({rpm: 1})
      await lease.release({rpm: 3})
      expect([await charged('team-1', 'rpm'), await charged('user-1', 'tpm')]).toEqual([4, 1])
      const error = await failure(strict.acquire(request({rpm: 7, tpm: 1})))
      expect(error).toMatchObject({code: 'limit.exceeded', statuses: [{name: 'rpm', entity: 'team-1'}]})
      expect([await charged('team-1', 'rpm'), await charged('user-1', 'tpm')]).toEqual([4, 1])
    })

    it('L7 costs one write per level once the configuration is known', async () => {
      const strict = scene.limiter({strict: true})
      for (let count = 0; count < 2; count++) await strict.acquire(request({rpm: 1, tpm: 1}))
      scene.calls.length = 0
      for (let count = 0; count < 3; count++) await strict.acquire(request({rpm: 1, tpm: 1}))
      expect(scene.calls).toEqual(Array.from({length: 6}, () => 'UpdateItem'))
      // The configuration is read again, once.
      scene.nowMs += 60_000
      await strict.acquire(request({rpm: 1, tpm: 1}))
      scene.calls.length = 0
      for (let count = 0; count < 2; count++) await strict.acquire(request({rpm: 1, tpm: 1}))
      expect(scene.calls).toEqual(Array.from({length: 4}, () => 'UpdateItem'))
    })

    it('names the limits of both if neither has it, and charges nothing', async () => {
      const strict = scene.limiter({strict: true})
      const error = {code: 'limit.unknown', details: {names: ['xpm'], known: ['tpm', 'rpm']}}
      expect(await failure(strict.acquire(request({rpm: 1, tpm: 1, xpm: 1})))).toMatchObject(error)
      expect(await scene.shards('user-1', 'gpt-4', 1)).toEqual([])
      expect(await failure(strict.check(request({xpm: 1})))).toMatchObject(error)
      const lease = await strict.acquire(request({rpm: 1, tpm: 1}))
      expect(await failure(lease.adjust({xpm: 1}))).toMatchObject(error)
      expect(await failure(strict.acquire(request({rpm: 1, tpm: 1, xpm: 1})))).toMatchObject(error)
      await strict.settled()
      expect([await charged('team-1', 'rpm'), await charged('user-1', 'tpm')]).toEqual([1, 1])
    })

    it('is unknown again when the parent loses it', async () => {
      const strict = scene.limiter({strict: true})
      await strict.acquire(request({rpm: 1, tpm: 1}))
      await strict.acquire(request({rpm: 1, tpm: 1}))
      await scene.configure({...own, entity: 'team-1'}, 'tpm=50/min')
      await syncLimits(scene.tenant, {...own, entity: 'team-1'})
      const unknown = {code: 'limit.unknown', details: {names: ['rpm']}}
      expect(await failure(strict.acquire(request({rpm: 1, tpm: 1})))).toMatchObject(unknown)
      await strict.settled()
      expect([await charged('team-1', 'tpm'), await charged('user-1', 'tpm')]).toEqual([0, 2])
      // An entity without a parent never had it.
      expect(await failure(strict.acquire({...request({rpm: 1}), entity: 'user-2'}))).toMatchObject(unknown)
    })

    it('is known as soon as the parent has it', async () => {
      await scene.configure({...own, entity: 'team-1'}, 'tpm=50/min')
      const strict = scene.limiter({strict: true})
      expect(await failure(strict.acquire(request({rpm: 1, tpm: 1})))).toMatchObject({code: 'limit.unknown'})
      await scene.configure({...own, entity: 'team-1'}, 'rpm=10/min', 'tpm=50/min')
      scene.nowMs += 60_000
      expect((await strict.acquire(request({rpm: 1, tpm: 1}))).unlimited).toEqual([])
      expect(await charged('team-1', 'rpm')).toBe(1)
    })

    it('is charged once if the entity takes from several shards', async () => {
      const strict = scene.limiter({strict: true})
      await strict.acquire(request({rpm: 1, tpm: 1}))
      await splitInto(scene, 2)
      const lease = await strict.acquire(request({rpm: 1, tpm: 80}))
      expect(lease).toMatchObject({unlimited: [], consumed: {tpm: 80}})
      expect([await charged('team-1', 'rpm')]).toEqual([2])
    })
  })

  it('is skipped if a request takes from several shards', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({tpm: 1}))
    await splitInto(scene, 2)
    const lease = await limiter.acquire(request({rpm: 1, tpm: 80}))
    expect(lease).toMatchObject({unlimited: ['rpm'], consumed: {tpm: 80}})
    expect(await scene.totals('user-1', 'gpt-4', 'tpm', 2)).toMatchObject({consumed: 81})
  })

  it('is enforced within the cache period after it is added, and at once by a new process', async () => {
    const limiter = scene.limiter({configCacheMs: 60_000})
    const several = async (process: typeof limiter) => {
      let admitted = 0
      for (let count = 0; count < 5; count++) admitted += Number(await isAdmitted(process.acquire(request({rpm: 1}))))
      return admitted
    }
    expect(await several(limiter)).toBe(5)
    await scene.configure(resource, 'rpm=3/min', 'tpm=100/min')
    scene.nowMs += 60_000
    expect(await several(limiter)).toBe(3)
    expect(await several(scene.limiter())).toBe(0)
    const fresh = new Scene(table)
    await fresh.configure(resource, 'rpm=3/min')
    expect(await several(fresh.limiter())).toBe(3)
  })

  it('is enforced at once if the change has updated the bucket', async () => {
    const limiter = scene.limiter()
    for (let count = 0; count < 3; count++) await limiter.acquire(request({rpm: 1, tpm: 1}))
    await scene.configure(resource, 'rpm=2/min', 'tpm=100/min')
    expect(await syncLimits(scene.tenant, resource)).toMatchObject({updated: 1})
    const [first, second, third] = [1, 2, 3].map(() => limiter.acquire(request({rpm: 1, tpm: 1})))
    expect(await Promise.all([first, second, third].map(each => isAdmitted(each as Promise<unknown>)))).toEqual([
      true,
      true,
      false,
    ])
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 0, consumed: 2})
  })

  it('admits no request if no limits are configured at any level', async () => {
    const nothing = {...request({rpm: 1}), resource: 'unknown'}
    expect(await failure(scene.limiter().acquire(nothing))).toMatchObject({code: 'limits.missing'})
  })
})

describe('the warning about a limit that is not configured', () => {
  it('is shown once per name and process', async () => {
    const warnings: string[] = []
    const listen = ({name, message}: Error) => warnings.push(`${name}: ${message}`)
    process.on('warning', listen)
    try {
      for (const name of ['warned-a', 'warned-b']) warnUnlimited(name, {resource: 'gpt-4'})
      warnUnlimited('warned-b', {resource: 'gpt-5'})
      await new Promise(resolve => setImmediate(resolve))
    } finally {
      process.off('warning', listen)
    }
    const about = warnings.filter(text => text.includes('"warned-'))
    expect(about).toHaveLength(2)
    expect(about[1]).toMatch(
      /^ZaelWarning: No limit "warned-b" applies to a request for gpt-4, so this amount is not limited\./,
    )
  })
})

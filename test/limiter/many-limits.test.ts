import {expect, it} from 'vitest'
import {calendarCheck} from '../../src/lib/core/calendar/schedule.js'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {Configs} from '../../src/lib/repository/limits/configs.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newAudit} from '../repository/namespace-table.js'
import {request, splitInto} from './visit.js'

const resource = {level: 'resource', resource: 'gpt-4'} as const

describeOnEngine('the maximum number of limits', () => {
  const table = useTable()

  it.each([
    ['rates', 47, (at: number) => `a-limit-with-a-long-name-${at}=100/min`],
    ['calendar quotas', 35, (at: number) => `quota-${at}=100/day@UTC`],
    ['session quotas', 35, (at: number) => `session-${at}=100/5h!`],
  ])('is charged, refused, settled, refilled and refunded: %s', async (_, count, text) => {
    const scene = new Scene(table)
    const texts = Array.from({length: count}, (_, at) => text(at))
    const limits = parseLimits(texts, calendarCheck)
    const configs = new Configs(scene.tenant, {audit: newAudit(scene.tenant)})
    await configs.set(resource, limits)
    const all = (tokens: number) => Object.fromEntries(limits.map(({name}) => [name, tokens]))
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request(all(60)))
    expect((await limiter.tryAcquire(request(all(60)))).admitted).toBe(false)
    await lease.adjust(all(10))
    await lease.consume(all(5))
    scene.nowMs += 1_000
    await (await limiter.acquire(request(all(10)))).rollback()
    await splitInto(scene, 2)
    await (await limiter.acquire(request(all(20)))).rollback()
    await lease.rollback()
    const name = limits[0]?.name as string
    expect(await scene.totals('user-1', 'gpt-4', name, 2)).toMatchObject({consumed: 0})
    await configs.set(resource, parseLimits([texts[0] as string], calendarCheck))
  })

  it.each([
    ['calendar quotas', 35, (at: number) => `quota-${at}=100/day@UTC`],
    ['session quotas', 35, (at: number) => `session-${at}=100/5h!`],
    ['rates', 47, (at: number) => `rate-${at}=100/min`],
  ])('replaces as many others in a live bucket: %s', async (_, count, text) => {
    const scene = new Scene(table)
    const configs = new Configs(scene.tenant, {audit: newAudit(scene.tenant)})
    const others = Array.from({length: 35}, (_, at) => `other-${at}=100/day@UTC`)
    await configs.set(resource, parseLimits(others, calendarCheck))
    await scene.limiter().acquire(request({'other-0': 1}))
    const limits = parseLimits(
      Array.from({length: count}, (_, at) => text(at)),
      calendarCheck,
    )
    await configs.set(resource, limits, {replace: true})
    const name = limits[0]?.name as string
    await scene.limiter().acquire(request({[name]: 1}))
    expect(await scene.totals('user-1', 'gpt-4', name)).toMatchObject({consumed: 1})
  })

  it('is accepted as default limits', () => {
    const defaultLimits = parseLimits(Array.from({length: 48}, (_, at) => `limit-${at}=1/min`))
    const refused = {code: 'limit.too-many', message: 'defaultLimits: 48 limits are too many: the maximum is 47.'}
    expect(() => new Scene(table).limiter({defaultLimits})).toThrow(expect.objectContaining(refused))
  })
})

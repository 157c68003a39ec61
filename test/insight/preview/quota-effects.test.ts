import {expect, it} from 'vitest'
import {changeLines, previewJson, quotaLines} from '../../../src/lib/cli/limits/preview.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {previewChange, previewChanges} from '../../../src/lib/insight/preview/preview.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {request, splitInto} from '../../limiter/visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const
const REFUSED = ', requests are refused until 2026-04-01 00:00 UTC'

describeOnBoth('L6 the preview of a changed quota', {}, table => {
  it.each([
    ['raised', 'q=$20/month@UTC', 1, '$12', 12_000_000, null],
    ['lowered on several shards', 'q=$9/month@UTC', 4, '$1', 1_000_000, null],
    ['lowered to the use', 'q=$8/month@UTC', 1, `$0${REFUSED}`, 0, '2026-04-01T00:00:00.000Z'],
    ['lowered below the use', 'q=$5/month@UTC', 2, `-$3${REFUSED}`, -3_000_000, '2026-04-01T00:00:00.000Z'],
    ['lowered below the use, soft', 'q=$5/month@UTC,soft', 1, '-$3', -3_000_000, null],
  ])('shows use and balance before and after, %s', async (_, text, shards, shown, after, refusedUntil) => {
    const scene = new Scene(table)
    scene.nowMs = Date.parse('2026-03-10T09:00:00Z')
    const namespace = new NamespaceRepository(scene.tenant, undefined)
    await namespace.setLimits(RESOURCE, parseLimits(['q=$10/month@UTC']))
    await using limiter = scene.limiter()
    await limiter.acquire(request({q: 8_000_000}))
    await limiter.settled()
    if (shards > 1) await splitInto(scene, shards)
    const planned = await namespace.configs.preview(RESOURCE, parseLimits([text]), {})
    const preview = await previewChange(namespace, {...planned, named: ['q']}, scene.nowMs)
    const left = {before: 2_000_000, after}
    expect(previewJson(planned, preview).quotas).toEqual([
      {
        entity: 'user-1',
        resource: 'gpt-4',
        limit: 'q',
        used: 8_000_000,
        left,
        resetsAt: '2026-04-01T00:00:00.000Z',
        refusedUntil,
      },
    ])
    const line = `q of user-1 for gpt-4: $8 used, left $2 → ${shown}`
    const title = `Quotas of live buckets: 1 changed${refusedUntil === null ? '' : ', 1 has nothing left'}`
    expect(changeLines(planned, preview, {where: ''}).slice(-3)).toEqual(['', title, `  ${line}`])
    const together = await previewChanges(namespace, [{...planned, named: ['q']}], scene.nowMs)
    expect(quotaLines(together, '')).toEqual(['', title, `  ${line}`])
    await namespace.setLimits(RESOURCE, parseLimits([text]))
    expect(await scene.limiter().available(request({}))).toEqual({q: after})
  })
  it('counts all and lists ten, first those that are refused', async () => {
    const scene = new Scene(table)
    scene.nowMs = Date.parse('2026-03-10T09:00:00Z')
    const namespace = new NamespaceRepository(scene.tenant, undefined)
    await namespace.setLimits(RESOURCE, parseLimits(['q=100/day@UTC', 's=100/day@UTC,soft']))
    await using limiter = scene.limiter()
    for (let at = 1; at <= 12; at++) await limiter.acquire(request({q: at * 8, s: 99}, `user-${at}`))
    await limiter.settled()
    const planned = await namespace.configs.preview(RESOURCE, parseLimits(['q=50/day@UTC', 's=50/day@UTC,soft']), {})
    const [, title, first, ...rest] = quotaLines(await previewChange(namespace, {...planned}, scene.nowMs), '')
    expect(title).toBe('Quotas of live buckets: 24 changed, 6 have nothing left')
    expect(first).toBe(
      '  q of user-12 for gpt-4: 96 used, left 4 → -46, requests are refused until 2026-03-11 00:00 UTC',
    )
    expect(rest.slice(0, 9).map(line => line.includes('are refused'))).toEqual([
      ...Array(5).fill(true),
      ...Array(4).fill(false),
    ])
    expect(rest.slice(9)).toEqual(['  and 14 more; --json lists all'])
  })
  const later = 'until the reset at 2026-04-01 00:00 UTC; the new allowance applies from then'
  const night = '@"* 22,23 * * *"'

  it.each([
    ['has windows', `q=$10/month@UTC,$5${night}`, `q=$50/month@UTC,$5${night}`, `$2 left ${later}`, '$40'],
    ['gets another period', 'q=$10/day@UTC', 'q=$50/month@UTC', `$2 left ${later}`, '$40'],
    ['is cut', 'q=$10/day@UTC', 'q=$1/month@UTC', `left $2 → $1 ${later}`, undefined],
    ['was a rate', 'q=$10/day', 'q=$50/month@UTC', `$2 left ${later}`, '$48'],
  ])('says that the new allowance applies from the reset if the quota %s', async (_, was, is, shown, more) => {
    const scene = new Scene(table)
    scene.nowMs = Date.parse('2026-03-10T09:00:00Z')
    const namespace = new NamespaceRepository(scene.tenant, undefined)
    await namespace.setLimits(RESOURCE, parseLimits([was]))
    await using limiter = scene.limiter()
    await limiter.acquire(request({q: 8_000_000}))
    await limiter.settled()
    const planned = await namespace.configs.preview(RESOURCE, parseLimits([is]), {})
    const preview = await previewChange(namespace, {...planned, named: ['q']}, scene.nowMs)
    expect(previewJson(planned, preview).quotas).toMatchObject([{used: null, resetsAt: '2026-04-01T00:00:00.000Z'}])
    const advice = `To add tokens now: zael bucket top-up user-1 gpt-4 'q=${more}' --stack x`
    expect(quotaLines(preview, ' --stack x')).toEqual([
      '',
      'Quotas of live buckets: 1 changed, 1 only from the next reset',
      `  q of user-1 for gpt-4: ${shown}`,
      ...(more === undefined ? [] : ['', advice]),
    ])
    const left = preview.quotas[0]?.left.after
    await namespace.setLimits(RESOURCE, parseLimits([is]))
    expect(await scene.limiter().available(request({}))).toEqual({q: left})
  })
})

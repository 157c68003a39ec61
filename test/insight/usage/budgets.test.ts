import {beforeEach, expect, it} from 'vitest'
import {budgetLines} from '../../../src/lib/cli/usage/presenter.js'
import {calendarCheck} from '../../../src/lib/core/calendar/schedule.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {moveTexts} from '../../../src/lib/insight/preview/move.js'
import {quotaBudgets} from '../../../src/lib/insight/usage/budgets.js'
import {reportUsage} from '../../../src/lib/insight/usage/usage-report.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {runEntity} from '../../../src/lib/schema/run-record.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {splitInto} from '../../limiter/visit.js'
import {put} from '../../repository/namespace-table.js'

const HOUR_MS = 3_600_000
const units = new Map([['usd', 'USD']])

describeOnBoth('budgets of quotas', {}, table => {
  let scene: Scene
  let own: NamespaceRepository

  beforeEach(async () => {
    scene = new Scene(table)
    scene.nowMs = Date.UTC(2026, 10, 11)
    own = new NamespaceRepository(scene.tenant, undefined)
    const limits = parseLimits(['rpm=100/min', 'usd=$20/month@UTC'], calendarCheck)
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, limits)
  })

  const budgets = (entity = 'e', resource?: string) => quotaBudgets(own, {entity, resource}, scene.nowMs)
  const use = (consume: Record<string, number>) => scene.limiter().acquire({entity: 'e', resource: 'gpt-4', consume})

  it('show used, left, share, the rest of the period and the projected end, over two shards', async () => {
    await use({usd: 1_000_000})
    await splitInto(scene, 2, 'e')
    for (const usd of [8_000_000, 3_000_000]) await use({usd})
    // $12 in 10 days leave $8 for 6.67 more days.
    expect(await budgets()).toEqual([
      {
        entity: 'e',
        ...{resource: 'gpt-4', name: 'usd', allowance: 20_000_000, used: 12_000_000, left: 8_000_000, share: 0.6},
        ...{since: '2026-11-01T00:00:00Z', resetsAt: '2026-12-01T00:00:00.000Z', daysLeft: 20},
        ...{averageSince: '2026-11-01T00:00:00Z', exhaustsAt: '2026-11-17T16:00:00Z'},
        usedUp: false,
      },
    ])
    expect(budgetLines(await budgets(), 'e', units, scene.nowMs)).toEqual([
      '',
      'Quota usd of gpt-4 now: $12 of $20 used (60 %), $8 left',
      '  resets in 20 d, at 2026-12-01 00:00 UTC',
      '  at the average rate since 2026-11-01 00:00 UTC: used up at 2026-11-17 16:00 UTC',
    ])
    expect(await budgets('e', 'other')).toEqual([])
    scene.nowMs = Date.UTC(2026, 11, 1)
    expect(await budgets()).toMatchObject([{used: 0, left: 20_000_000, share: 0, exhaustsAt: null}])
  })

  it('of a run never reset', async () => {
    const run = await scene.limiter().delegate({entity: 'e', resource: 'gpt-4', amounts: {usd: '$2'}, for: '1h'})
    await run.acquire({consume: {usd: 500_000}})
    const entity = runEntity(run.id)
    expect(budgetLines(await budgets(entity), entity, units, scene.nowMs)).toEqual([
      '',
      'Quota usd of gpt-4 now: $0.50 of $2 used (25 %), $1.50 left',
    ])
  })

  it('round the time to the reset up, as why does', async () => {
    await use({usd: 1_000_000})
    scene.nowMs += 60_000
    expect(budgetLines(await budgets(), 'e', units, scene.nowMs)[2]).toContain('resets in 20 d, at')
  })

  it('show the quota of the parent that is charged too, and which of both runs out first', async () => {
    await scene.entity('ann', 'search')
    await scene.entity('bob', 'search')
    await own.setLimits({level: 'entity', entity: 'search', resource: 'gpt-4'}, parseLimits(['usd=$10/month@UTC']))
    const spend = (entity: string, usd: number) => scene.limiter().acquire({entity, resource: 'gpt-4', consume: {usd}})
    await spend('ann', 1_000_000)
    await spend('bob', 3_000_000)
    scene.nowMs += HOUR_MS
    // $4 in 10 days leave $6 for 15 more days; $1 leaves $19 until the reset.
    const running = await budgets('ann')
    expect(running).toMatchObject([
      {entity: 'ann', left: 19_000_000, exhaustsAt: null},
      {entity: 'search', left: 6_000_000, exhaustsAt: '2026-11-26T02:30:00Z'},
    ])
    expect(budgetLines(running, 'ann', units, scene.nowMs).filter(line => line.includes('first'))).toEqual([
      '  usd of search runs out first',
    ])
    await spend('bob', 6_000_000)
    const exhausted = await budgets('ann')
    expect(budgetLines(exhausted, 'ann', units, scene.nowMs)).toEqual([
      '',
      'Quota usd of gpt-4 now: $1 of $20 used (5 %), $19 left',
      '  resets in 19 d 23 h, at 2026-12-01 00:00 UTC',
      '  at the average rate since 2026-11-01 00:00 UTC: enough until the reset',
      '  usd of search is used up already',
      '',
      'Quota usd of the parent search for gpt-4 now: $10 of $10 used (100 %), $0 left',
      '  resets in 19 d 23 h, at 2026-12-01 00:00 UTC',
      '  requests are refused until the reset',
    ])
    expect(await budgets('search')).toMatchObject([{entity: 'search', left: 0}])
  })

  it('are used up when an average request needs more, also for entities that move to the parent', async () => {
    await scene.entity('ann', 'search')
    for (const id of ['sales', 'team']) await own.entities.create({id})
    for (const id of ['bob', 'eve']) await own.entities.create({id, parent: 'sales', cascade: true})
    await own.setLimits({level: 'entity', entity: 'search', resource: 'gpt-4'}, parseLimits(['usd=$10/month@UTC']))
    for (let request = 0; request < 3; request++)
      await scene.limiter().acquire({entity: 'ann', resource: 'gpt-4', consume: {usd: 3_000_000}})
    const moves = (to: string) => moveTexts(own, [{entity: 'bob', parent: to}, {entity: 'eve'}], scene.nowMs)
    scene.nowMs += HOUR_MS
    expect(await moves('search')).toEqual([])
    const counted = {tokens: new Map([['usd', 9_000_000]]), totalEvents: 3, ttlSeconds: undefined}
    const hour = {namespace: own.id, entity: 'search', resource: 'gpt-4', window: 'hourly', ...counted} as const
    await put(scene.tenant, encodeUsage({...hour, start: '2026-11-11T00:00:00Z'}))
    expect(await moves('search')).toEqual([
      'search has only $1 of usd left for gpt-4: bob will be refused until 2026-12-01 00:00 UTC',
    ])
    expect(await moves('team')).toEqual([])
  })

  it('show the quota that only the parent has', async () => {
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=100/min']), {replace: true})
    await scene.entity('ann', 'search')
    await own.setLimits({level: 'entity', entity: 'search', resource: 'gpt-4'}, parseLimits(['usd=$10/month@UTC']))
    await scene.limiter().acquire({entity: 'ann', resource: 'gpt-4', consume: {rpm: 1, usd: 4_000_000}})
    expect(await budgets('ann')).toMatchObject([{entity: 'search', name: 'usd', used: 4_000_000}])
  })

  it('show what is left if the limit changed its kind in this period, without its use', async () => {
    await use({usd: 4_000_000})
    await own.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['usd=$20/day@UTC'], calendarCheck))
    const kept = await budgets()
    expect(kept).toMatchObject([{allowance: 20_000_000, used: null, share: null, exhaustsAt: null}])
    expect(budgetLines(kept, 'e', units, scene.nowMs)[1]).toMatch(
      /^Quota usd of gpt-4 now: \$16 of \$20 left; its use is unknown/,
    )
  })

  it('show that a quota lasts, that it is used up, and an open session', async () => {
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, parseLimits(['s=50/5h!']))
    await use({usd: 1_000_000, s: 10})
    const lasting = await budgets()
    expect(lasting).toMatchObject([
      {name: 's', used: 10, left: 40, since: '2026-11-11T00:00:00Z', daysLeft: 0.2, exhaustsAt: null},
      {name: 'usd', used: 1_000_000, exhaustsAt: null},
    ])
    // The session began at this instant: it has no average.
    expect(budgetLines(lasting.slice(0, 1), 'e', units, scene.nowMs)).toHaveLength(3)
    scene.nowMs += HOUR_MS
    // 10 in an hour: 40 more in four hours, just when the session ends.
    const later = await budgets()
    expect(later).toMatchObject([{name: 's', exhaustsAt: null}, {}])
    expect(budgetLines(later, 'e', units, scene.nowMs)).toContain(
      '  at the average rate since 2026-11-11 00:00 UTC: enough until the reset',
    )
    await use({s: 10})
    expect(await budgets()).toMatchObject([{name: 's', exhaustsAt: '2026-11-11T02:30:00Z'}, {}])
    await use({usd: 19_000_000})
    const [, usd] = await budgets()
    expect(usd).toMatchObject({used: 20_000_000, left: 0, share: 1, exhaustsAt: null})
    expect(usd?.usedUp).toBe(true)
    expect(budgetLines(usd ? [usd] : [], 'e', units, scene.nowMs).slice(3)).toEqual([
      '  requests are refused until the reset',
    ])
    scene.nowMs += 5 * HOUR_MS
    // The session is over, and nothing opened a new one.
    expect((await budgets()).map(({name}) => name)).toEqual(['usd'])
  })

  it('include top-ups in the allowance, and nothing for several entities', async () => {
    await use({usd: 5_000_000})
    await own.topUpBucket({entity: 'e', resource: 'gpt-4'}, {usd: 10_000_000})
    expect(await budgets()).toMatchObject([{allowance: 30_000_000, used: 5_000_000, left: 25_000_000}])
    expect(await quotaBudgets(own, {resource: 'gpt-4'}, scene.nowMs)).toEqual([])
    const counted = {tokens: new Map([['usd', 15_000_000]]), totalEvents: 1, ttlSeconds: undefined}
    for (const start of ['2026-11-01T00:00:00Z', '2026-10-01T00:00:00Z'])
      await put(
        scene.tenant,
        encodeUsage({namespace: own.id, entity: 'e', resource: 'gpt-4', window: 'monthly', start, ...counted}),
      )
    const subject = {window: 'monthly', sinceMs: Date.UTC(2026, 9), untilMs: Date.UTC(2026, 11)} as const
    for (const whose of [{entity: 'e'}, {resource: 'gpt-4'}]) {
      const {windows} = await reportUsage(own, {...whose, ...subject}, {})
      expect(windows.map(({limits}) => limits[0])).toMatchObject([
        {budget: 30_000_000, share: 0.5},
        {budget: 20_000_000, share: 0.75},
      ])
    }
  })

  it('project by the rate since the first hour with recorded use', async () => {
    await use({usd: 4_000_000})
    const counted = {tokens: new Map([['usd', 4_000_000]]), totalEvents: 1, ttlSeconds: undefined}
    const hour = {namespace: own.id, entity: 'e', resource: 'gpt-4', window: 'hourly', ...counted} as const
    scene.nowMs += 8 * HOUR_MS
    // Without records, the whole period counts: $4 in ten days would last until the reset.
    const unrecorded = [{averageSince: '2026-11-01T00:00:00Z', exhaustsAt: null}]
    expect(await budgets()).toMatchObject(unrecorded)
    await put(scene.tenant, encodeUsage({...hour, start: '2026-11-11T00:00:00Z'}))
    const recorded = await budgets()
    expect(recorded).toMatchObject([{averageSince: '2026-11-11T00:00:00Z', exhaustsAt: '2026-11-12T16:00:00Z'}])
    expect(budgetLines(recorded, 'e', units, scene.nowMs)).toContain(
      '  at the average rate since 2026-11-11 00:00 UTC: used up at 2026-11-12 16:00 UTC',
    )
    await put(scene.tenant, {
      ...encodeUsage({...hour, start: '2026-11-11T00:00:00Z'}),
      _first: s(String(Date.UTC(2026, 10, 11, 0, 30))),
    })
    expect(await budgets()).toMatchObject([{averageSince: '2026-11-11T00:30:00Z', exhaustsAt: '2026-11-12T14:00:00Z'}])
    await put(scene.tenant, encodeUsage({...hour, start: '2026-11-11T00:00:00Z'}))
    // Records of a third of the use do not tell when it began.
    await use({usd: 10_000_000})
    expect(await budgets()).toMatchObject([{averageSince: '2026-11-01T00:00:00Z'}])
    // A reset bucket has used less than is recorded; the rate of use stays.
    await own.resetBucket({entity: 'e', resource: 'gpt-4'})
    expect(await budgets()).toMatchObject([{used: 0, averageSince: '2026-11-01T00:00:00Z'}])
    await use({usd: 2_000_000})
    expect(await budgets()).toMatchObject([{left: 18_000_000, exhaustsAt: '2026-11-12T20:00:00Z'}])
  })

  it('say that requests are refused if less than the average request is left', async () => {
    await use({usd: 19_990_000})
    const counted = {tokens: new Map([['usd', 19_990_000]]), totalEvents: 1000, ttlSeconds: undefined}
    const hour = {namespace: own.id, entity: 'e', resource: 'gpt-4', window: 'hourly', ...counted} as const
    scene.nowMs += HOUR_MS
    await put(scene.tenant, encodeUsage({...hour, start: '2026-11-11T00:00:00Z'}))
    const short = await budgets()
    expect(short).toMatchObject([{left: 10_000, usedUp: true, exhaustsAt: null}])
    expect(budgetLines(short, 'e', units, scene.nowMs).slice(3)).toEqual([
      '  an average request needs more: such requests are refused until the reset',
    ])
    await own.topUpBucket({entity: 'e', resource: 'gpt-4'}, {usd: 10_000})
    expect(await budgets()).toMatchObject([{left: 20_000, usedUp: false, exhaustsAt: '2026-11-11T01:00:03Z'}])
  })

  it('show how much a quota is overdrawn', async () => {
    await own.configs.set(
      {level: 'resource', resource: 'gpt-4'},
      parseLimits(['usd=$20/month@UTC,soft'], calendarCheck),
    )
    await use({usd: 19_000_000})
    await use({usd: 4_500_000})
    const overdrawn = await budgets()
    expect(overdrawn).toMatchObject([{allowance: 20_000_000, used: 23_500_000, left: -3_500_000, exhaustsAt: null}])
    // A soft quota refuses nothing.
    expect(overdrawn).toMatchObject([{usedUp: false}])
    expect(budgetLines(overdrawn, 'e', units, scene.nowMs)[1]).toBe(
      'Quota usd of gpt-4 now: $23.50 of $20 used (118 %), -$3.50 left',
    )
  })
})

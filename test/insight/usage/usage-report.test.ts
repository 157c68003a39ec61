import {expect, it} from 'vitest'
import {parentOnlyLines} from '../../../src/lib/cli/usage/presenter.js'
import {topFooter, topListing} from '../../../src/lib/cli/usage/top-presenter.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {windowStart} from '../../../src/lib/core/window.js'
import {parentOnlyLimits} from '../../../src/lib/insight/lookup/family-limits.js'
import {NOT_REFUSED, refusedTotal} from '../../../src/lib/insight/usage/refused.js'
import {reportUsage, totalUsage, walkUsage} from '../../../src/lib/insight/usage/usage-report.js'
import {topConsumers} from '../../../src/lib/insight/usage/usage-top.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {encodeEntity} from '../../../src/lib/schema/entity-record.js'
import {encodeNamespaceById} from '../../../src/lib/schema/namespace-record.js'
import type {RefusalCounts} from '../../../src/lib/schema/refusal-counts.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, put, putBucket, type TestTenant} from '../../repository/namespace-table.js'

const HOUR = 3_600_000
const START = Date.UTC(2026, 10, 1)
const range = {window: 'hourly', sinceMs: START, untilMs: START + 24 * HOUR} as const

/** Usage in one hour after the start. */
const use = (
  tenant: TestTenant,
  entity: string,
  resource: string,
  hour: number,
  tokens: Record<string, number>,
  n = 1,
  refused?: RefusalCounts,
) =>
  put(
    tenant,
    encodeUsage({
      namespace: tenant.namespace,
      entity,
      resource,
      window: 'hourly',
      start: windowStart('hourly', START + hour * HOUR),
      tokens: new Map(Object.entries(tokens)),
      totalEvents: n,
      refused,
      ttlSeconds: undefined,
    }),
  )

/** So many requests for 50 tokens each that tpm had too little for. */
const refusals = (requests: number, byParent = 0): RefusalCounts => ({
  requests,
  byParent,
  lastAtMs: START,
  limits: new Map([['tpm', {requests, tokens: BigInt(50 * requests)}]]),
})

describeOnBoth('reports on usage', {}, table => {
  it('compare every window with the limits of its own entity and resource', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10']))
    await own.configs.set({level: 'entity', entity: 'vip', resource: 'r'}, parseLimits(['rpm=100']))
    await use(tenant, 'vip', 'r', 1, {rpm: 600, old: 1})
    await use(tenant, 'e', 'r', 1, {rpm: 600})
    const {windows, totals} = await reportUsage(own, {resource: 'r', ...range}, {})
    expect(windows.map(({entity, end, limits}) => ({entity, end, limits}))).toEqual([
      {
        entity: 'vip',
        end: '2026-11-01T02:00:00Z',
        limits: [
          {name: 'old', tokens: 1, overdrawn: 0, budget: null, share: null, refused: NOT_REFUSED},
          {name: 'rpm', tokens: 600, overdrawn: 0, budget: 6000, share: 0.1, refused: NOT_REFUSED},
        ],
      },
      {
        entity: 'e',
        end: '2026-11-01T02:00:00Z',
        limits: [{name: 'rpm', tokens: 600, overdrawn: 0, budget: 600, share: 1, refused: NOT_REFUSED}],
      },
    ])
    expect(totals.map(({name, tokens}) => `${name} ${tokens}`)).toEqual(['old 1', 'rpm 1200'])
  })

  it('have no budget for what is an in-flight limit now', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10/inflight']))
    await use(tenant, 'e', 'r', 1, {rpm: 600})
    const {windows} = await reportUsage(own, {resource: 'r', ...range}, {})
    expect(windows[0]?.limits).toMatchObject([{name: 'rpm', tokens: 600, budget: null, share: null}])
  })

  it('add up per resource, and keep equal limit names of two resources apart', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await use(tenant, 'e', 'r', 1, {rpm: 7}, 2)
    await use(tenant, 'e', 'r', 3, {rpm: 5}, 3)
    await use(tenant, 'e', 's', 3, {rpm: 100}, 4)
    expect(await totalUsage(own, {entity: 'e', ...range})).toEqual({
      requests: 9,
      doubtful: 0,
      refused: {requests: 0, byParent: 0, blocked: 0},
      refusedTwice: 0,
      windows: 3,
      complete: true,
      totals: [
        {
          ...{resource: 'r', name: 'rpm', tokens: 12, overdrawn: 0, windows: 2, average: 6},
          peak: {tokens: 7, entity: 'e', start: '2026-11-01T01:00:00Z'},
          refused: NOT_REFUSED,
        },
        expect.objectContaining({resource: 's', tokens: 100}),
      ],
    })
    await expect(totalUsage(own, range)).rejects.toMatchObject({code: 'usage.subject', kind: 'usage'})
  })

  it('S10 count a request that cascades once, however many entities are charged', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.entities.create({id: 'org'})
    await own.entities.create({id: 'team', parent: 'org', cascade: true})
    for (const id of ['u1', 'u2']) await own.entities.create({id, parent: 'team', cascade: true})
    await own.entities.create({id: 'apart', parent: 'team'})
    // Two requests to u1 and one to u2 are charged to the team, one to the team itself to the organisation; the team
    // has no limit rpm.
    await use(tenant, 'u1', 'r', 1, {rpm: 2, tpm: 200}, 2)
    await use(tenant, 'u2', 'r', 1, {rpm: 1, tpm: 100}, 1)
    await use(tenant, 'team', 'r', 1, {tpm: 350}, 4)
    await use(tenant, 'org', 'r', 1, {tpm: 50}, 1)
    await use(tenant, 'apart', 'r', 1, {rpm: 1, tpm: 7}, 1)
    const subject = {resource: 'r', ...range}
    const report = await totalUsage(own, subject)
    expect(report).toMatchObject({requests: 5, windows: 5})
    expect(report.totals).toEqual([
      expect.objectContaining({name: 'rpm', tokens: 4, windows: 3}),
      expect.objectContaining({name: 'tpm', tokens: 357, windows: 4, average: 357 / 4}),
    ])
    // The largest window is still the team's.
    expect(report.totals[1]?.peak).toMatchObject({entity: 'team', tokens: 350})
    const {requests, totals} = await reportUsage(own, subject, {})
    expect({requests, totals}).toEqual({requests: 5, totals: report.totals})
    const top = await topConsumers(own, {...subject, by: 'requests', most: 3})
    expect([...top.consumers].map(({entity, share}) => `${entity} ${share}`)).toEqual([
      'team 0.8',
      'u1 0.4',
      'apart 0.2',
    ])
    // The report of one entity includes all its charges.
    expect(await totalUsage(own, {entity: 'team', ...range})).toMatchObject({requests: 4})
  })

  it('S10 count a request once that charges all its ancestors', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    const {namespace} = tenant
    const record = {
      id: namespace,
      name: 'n',
      status: 'active',
      createdAt: '',
      deletedAt: undefined,
      levels: 'all',
    } as const
    await put(tenant, encodeNamespaceById(record))
    await own.entities.create({id: 'org'})
    for (const [id, parent] of [
      ['team', 'org'],
      ['user', 'team'],
      ['key', 'user'],
    ] as const)
      await own.entities.create({id, parent, cascade: true})
    // The key makes 20 requests, the team 5. The org refuses 78 of the key, and one that the key's own limit refuses too.
    await use(tenant, 'key', 'r', 1, {tpm: 2000}, 20, refusals(5, 78))
    await use(tenant, 'user', 'r', 1, {tpm: 2000}, 20)
    await use(tenant, 'team', 'r', 1, {tpm: 2500}, 25)
    await use(tenant, 'org', 'r', 1, {tpm: 2500}, 25, refusals(79))
    const subject = {resource: 'r', ...range}
    const total = await totalUsage(own, subject)
    expect(total).toMatchObject({requests: 25, doubtful: 0, totals: [{tokens: 2500}], refusedTwice: 1})
    const {consumers} = await topConsumers(own, {...subject, by: 'tpm', most: 4})
    expect([...consumers].map(({entity, share}) => `${entity} ${share}`).sort()).toEqual([
      'key 0.8',
      'org 1',
      'team 1',
      'user 0.8',
    ])
  })

  it('S10 say that no request counts twice if only the direct parent of each is charged', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.entities.create({id: 'org'})
    await own.entities.create({id: 'team', parent: 'org', cascade: true})
    await own.entities.create({id: 'key', parent: 'team', cascade: true})
    await use(tenant, 'key', 'r', 1, {tpm: 1200}, 12)
    await use(tenant, 'team', 'r', 1, {tpm: 1200}, 12)
    await use(tenant, 'org', 'r', 1, {}, 0)
    expect(await totalUsage(own, {resource: 'r', ...range})).toMatchObject({requests: 12, doubtful: 0})
  })

  it('G7 follow the cascade policies, and do not subtract amounts that a parent was not charged', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.entities.create({id: 'team'})
    await own.entities.create({id: 'u1', parent: 'team', cascade: true})
    await own.entities.create({id: 'u2', parent: 'team'})
    await own.setCascade({level: 'resource', resource: 'off'}, false)
    await own.setCascade({level: 'entity', entity: 'u2', resource: 'on'}, true)
    for (const resource of ['off', 'on']) {
      await use(tenant, 'u1', resource, 1, {rpm: 3}, 3)
      await use(tenant, 'u2', resource, 1, {rpm: 2}, 2)
    }
    // Ten of its own, and five of its children where both cascade.
    await use(tenant, 'team', 'off', 1, {rpm: 10}, 10)
    await use(tenant, 'team', 'on', 1, {rpm: 15}, 15)
    for (const resource of ['off', 'on'])
      expect(await totalUsage(own, {resource, ...range})).toMatchObject({requests: 15, totals: [{tokens: 15}]})
    const top = await topConsumers(own, {resource: 'on', ...range, by: 'rpm', most: 1})
    expect([...top.consumers]).toMatchObject([{entity: 'team', share: 1}])
  })

  it("never count less than the children's requests, even if a parent was charged only a part", async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.entities.create({id: 'team'})
    await own.entities.create({id: 'u1', parent: 'team', cascade: true})
    // The team got its limit, or u1 began to cascade, in the middle of the hour.
    await use(tenant, 'u1', 'r', 1, {rpm: 10}, 10)
    await use(tenant, 'team', 'r', 1, {rpm: 4}, 4)
    expect(await totalUsage(own, {resource: 'r', ...range})).toMatchObject({
      requests: 10,
      doubtful: 0,
      totals: [{tokens: 10}],
    })
  })

  it('L6 say how many requests may count twice after a move to another parent', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    for (const id of ['old', 'new']) await own.entities.create({id})
    await own.entities.create({id: 'u1', parent: 'new', cascade: true})
    await own.entities.create({id: 'u2', parent: 'old', cascade: true})
    // u1 moved in the second hour.
    for (const [hour, before, after] of [
      [1, 5, 0],
      [2, 3, 4],
      [3, 0, 2],
    ] as const) {
      await use(tenant, 'u1', 'r', hour, {rpm: before + after}, before + after)
      await use(tenant, 'u2', 'r', hour, {rpm: 1}, 1)
      await use(tenant, 'old', 'r', hour, {rpm: before + 1}, before + 1)
      if (after > 0) await use(tenant, 'new', 'r', hour, {rpm: after}, after)
    }
    const subject = {resource: 'r', ...range}
    const total = await totalUsage(own, subject)
    expect(total.doubtful).toBe(8)
    expect(total.requests - total.doubtful).toBe(5 + 7 + 2 + 3)
    expect(await reportUsage(own, subject, {})).toMatchObject({doubtful: 8})
    expect(await topConsumers(own, {...subject, by: 'requests'})).toMatchObject({doubtful: 8})
    expect(await totalUsage(own, {...subject, sinceMs: START + 3 * HOUR})).toMatchObject({requests: 3, doubtful: 0})
  })

  it('rank only entities that were charged for a limit', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.entities.create({id: 'team'})
    await own.entities.create({id: 'u1', parent: 'team', cascade: true})
    await use(tenant, 'u1', 'r', 1, {rpm: 3}, 3)
    await use(tenant, 'team', 'r', 1, {usd: 500}, 3)
    const ranked = async (by: string) => {
      const top = await topConsumers(own, {resource: 'r', ...range, by})
      return [[...top.consumers].map(({entity, share}) => `${entity} ${share}`), top.total, top.hasOthers]
    }
    expect(await ranked('usd')).toEqual([['team 1'], 1, true])
    expect(await ranked('requests')).toEqual([['team 1', 'u1 1'], 2, false])
  })

  it('rank the members of a parent, by their share of its use', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    for (const id of ['team', 'idle', 'other']) await own.entities.create({id})
    for (const id of ['ann', 'bob']) await own.entities.create({id, parent: 'team', cascade: true})
    await own.entities.create({id: 'eve', parent: 'other', cascade: true})
    await use(tenant, 'team', 'r', 1, {rpm: 10, usd: 700}, 10, refusals(4))
    await use(tenant, 'ann', 'r', 1, {rpm: 2}, 2, refusals(0, 1))
    await use(tenant, 'bob', 'r', 1, {rpm: 5}, 5, refusals(0, 3))
    await use(tenant, 'bob', 's', 1, {rpm: 90}, 90)
    await use(tenant, 'eve', 'r', 1, {rpm: 99}, 99)
    await use(tenant, 'other', 'r', 1, {rpm: 99}, 99)
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10']))
    const request = {resource: 'r', by: 'requests', parent: 'team', ...range}
    const {consumers, total, parent} = await topConsumers(own, request)
    expect([...consumers]).toMatchObject([
      {entity: 'bob', requests: 5, share: 0.5},
      {entity: 'ann', requests: 2, share: 0.2},
    ])
    expect(total).toBe(2)
    expect(parent).toMatchObject({
      ...{entity: 'team', requests: 10, refused: {requests: 4}},
      others: {requests: 3},
      parentOnly: [{resource: 'r', limit: 'usd'}],
    })
    expect(parent?.others.limits).toEqual(
      new Map([
        ['rpm', 3],
        ['usd', 700],
      ]),
    )
    const refused = await topConsumers(own, {...request, by: 'refused'})
    expect(Array.from(refused.consumers, each => `${each.entity} ${each.share}`)).toEqual(['bob 0.75', 'ann 0.25'])
    const both = await topConsumers(own, {...request, resource: undefined, isByEntity: true})
    expect(Array.from(both.consumers, each => `${each.entity} ${each.requests}`)).toEqual(['bob 95', 'ann 2'])
    await expect(topConsumers(own, {...request, by: 'usd'})).rejects.toThrow('its use is recorded for team only')
    await expect(topConsumers(own, {...request, parent: 'idle'})).rejects.toThrow('idle has no members')
    await expect(topConsumers(own, {...request, parent: 'nobody'})).rejects.toThrow('does not exist')
    const parents = await topConsumers(own, {resource: 'r', by: 'rpm', isByEntity: true, isByParent: true, ...range})
    expect(Array.from(parents.consumers, each => `${each.entity} ${each.requests}`)).toEqual(['other 99', 'team 10'])
  })

  it('L6 count the use of a member that moved to the parent that was charged', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10', 'usd=$5']))
    for (const id of ['a', 'b', 'c']) await own.entities.create({id})
    for (const id of ['ann', 'bob']) await own.entities.create({id, parent: 'a', cascade: true})
    for (const id of ['eve', 'joe']) await own.entities.create({id, parent: 'b', cascade: true})
    tenant.nowMs = START + 2.5 * HOUR
    await own.entities.update('ann', {parent: 'b'})
    tenant.nowMs += 1000
    await own.entities.update('joe', {parent: 'c'})
    for (const hour of [1, 2, 3]) {
      await use(tenant, 'ann', 'r', hour, {rpm: 8, usd: 80, tpm: 800}, 8)
      await use(tenant, 'bob', 'r', hour, {rpm: 1}, 1)
    }
    // In the hour of the move, 5 requests before it and 3 after it. "a" has the use of a deleted member too.
    await use(tenant, 'a', 'r', 1, {rpm: 11, usd: 110}, 11)
    await use(tenant, 'a', 'r', 2, {rpm: 6, usd: 50}, 6)
    await use(tenant, 'a', 'r', 3, {rpm: 1}, 1)
    await use(tenant, 'b', 'r', 2, {rpm: 3, usd: 30}, 3)
    await use(tenant, 'b', 'r', 3, {rpm: 8, usd: 80}, 8)
    const top = async (parent: string, by: string) => topConsumers(own, {resource: 'r', by, parent, ...range})
    const rows = async (parent: string, by: string) =>
      Array.from((await top(parent, by)).consumers, each => `${each.entity} ${each.limits.get('rpm')}`)
    expect(await rows('a', 'rpm')).toEqual(['ann 13', 'bob 3'])
    expect(await rows('b', 'rpm')).toEqual(['ann 11'])
    const {parent} = await top('a', 'usd')
    expect(parent).toMatchObject({parentOnly: [], others: {requests: 2}})
    expect(parent?.moves).toEqual([{entity: 'ann', atMs: START + 2.5 * HOUR, from: 'a', to: 'b'}])
    if (!parent) throw new Error('no parent')
    const footer = topFooter({...(await top('b', 'usd'))}, {resource: 'r', by: 'usd', units: undefined})
    expect(footer.slice(-3)).toEqual([
      'Members that moved: ann from a (2026-11-01 02:30 UTC), joe to c (2026-11-01 02:30 UTC)',
      '  In the window of a move, zael counts at most the charge of b minus the use of its other members. This can ' +
        'be too much if b made requests itself or several members moved. Their refusals in that window count for both parents.',
      '  These amounts include the whole window of the move, because b lacks the limits: tpm of ann',
    ])
    // Neither parent has a limit tpm: of 8 requests in the hour of the move, nobody knows the tokens of either part.
    const ofMember = Array.from((await top('b', 'usd')).consumers, ({limits}) => Object.fromEntries(limits))
    expect(ofMember).toEqual([{rpm: 11, usd: 110, tpm: 1600}])
    for (const id of ['a', 'b'])
      expect((await top(id, 'usd')).parent?.undivided).toEqual([{entity: 'ann', resource: 'r', limit: 'tpm'}])
    // "c" was charged nothing: neither was its member.
    expect(await rows('c', 'rpm')).toEqual([])
    const parents = await topConsumers(own, {resource: 'r', by: 'rpm', isByEntity: true, isByParent: true, ...range})
    expect(Array.from(parents.consumers, ({entity, share}) => [entity, share])).toEqual([
      ['a', 18 / 29],
      ['b', 11 / 29],
    ])
  })

  it('L6 name the limits that are charged to the parent only', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.entities.create({id: 'team'})
    await own.entities.create({id: 'u1', parent: 'team', cascade: true})
    await own.entities.create({id: 'apart', parent: 'team'})
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10', 'tpm=5']))
    await own.configs.set(
      {level: 'entity', entity: 'team', resource: 'r'},
      parseLimits(['parallel=9/inflight', 'rpm=10', 'usd=$5/month@UTC']),
    )
    await own.configs.set({level: 'resource', resource: 's'}, parseLimits(['rpm=10']))
    const used = ['s', 'r', 'r'].map(resource => ({resource}))
    expect(await parentOnlyLimits(own, 'u1', used)).toEqual([{resource: 'r', parent: 'team', limits: ['usd']}])
    for (const entity of ['team', 'apart', 'unknown', undefined])
      expect(await parentOnlyLimits(own, entity, used)).toEqual([])
    expect(parentOnlyLines([{resource: 'r', parent: 'team', limits: ['eur', 'usd']}])).toEqual([
      '',
      'Requests for r charge eur and usd to the parent team only. See: zael usage show team',
    ])
  })

  it('terminate where parents form a cycle', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    const circle = {namespace: tenant.namespace, name: '', cascade: true, metadata: {}, createdAt: '', version: 0}
    await put(tenant, encodeEntity({...circle, entity: 'a', parent: 'b'}))
    await put(tenant, encodeEntity({...circle, entity: 'b', parent: 'a'}))
    await use(tenant, 'a', 'r', 1, {rpm: 3}, 3)
    await use(tenant, 'b', 'r', 1, {rpm: 3}, 3)
    expect(await totalUsage(own, {resource: 'r', ...range})).toMatchObject({requests: 3, totals: [{tokens: 3}]})
  })

  it('look up the family of an entity once, however many windows it has', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.entities.create({id: 'team'})
    for (const id of ['u1', 'u2']) await own.entities.create({id, parent: 'team', cascade: true})
    for (const hour of [1, 2, 3, 4]) {
      for (const id of ['u1', 'u2']) await use(tenant, id, 'r', hour, {rpm: hour}, hour)
      await use(tenant, 'team', 'r', hour, {rpm: 2 * hour + 1}, 2 * hour + 1)
    }
    const readsIn = async (hours: number, read: typeof totalUsage) => {
      tenant.transport.calls.length = 0
      const result = await read(own, {resource: 'r', ...range, untilMs: START + (hours + 1) * HOUR})
      return {requests: result.requests, calls: [...tenant.transport.calls]}
    }
    const [one, four] = [await readsIn(1, totalUsage), await readsIn(4, totalUsage)]
    expect([one.requests, four.requests]).toEqual([3, 24])
    expect(four.calls).toEqual(one.calls)
    const top = await topConsumers(own, {...range, resource: 'r', by: 'rpm', most: 2})
    expect(top).toMatchObject({count: 2, total: 3})
    expect([...top.consumers]).toMatchObject([
      {entity: 'team', share: 1},
      {entity: 'u1', share: 10 / 24},
    ])
  })

  it('count the windows read, and stop when the callback throws', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    for (const hour of [1, 2, 3]) await use(tenant, 'e', 'r', hour, {rpm: 1})
    const seen: number[] = []
    const stopAtTwo = (windows: number) => {
      seen.push(windows)
      if (windows === 2) throw new Error('stopped')
    }
    await expect(totalUsage(own, {resource: 'r', ...range}, stopAtTwo)).rejects.toThrow('stopped')
    const top = topConsumers(own, {...range, resource: 'r', by: 'rpm', most: 2}, stopAtTwo)
    await expect(top).rejects.toThrow('stopped')
    expect(seen).toEqual([1, 2, 1, 2])
  })

  it('stop at a bound with the newest windows, and say so', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    for (const hour of [1, 2, 3]) await use(tenant, 'e', 'r', hour, {rpm: 1})
    const starts: string[] = []
    expect(await walkUsage(own, {resource: 'r', ...range}, ({start}) => starts.push(start), 2)).toBe(false)
    expect(starts).toEqual(['2026-11-01T03:00:00Z', '2026-11-01T02:00:00Z'])
    expect(await walkUsage(own, {resource: 'r', ...range}, () => {}, 3)).toBe(true)
  })

  it('include refusals in every window, in the totals and for ranking, even for a limit that only refused', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10', 'tpm=100']))
    await use(tenant, 'a', 'r', 1, {rpm: 2}, 2, refusals(3, 4))
    await use(tenant, 'a', 'r', 2, {tpm: 9}, 1, refusals(1))
    await use(tenant, 'b', 'r', 2, {rpm: 9}, 9)
    await use(tenant, 'a', 'r', 3, {}, 0, {requests: 5, byParent: 0, blocked: 5, lastAtMs: START, limits: new Map()})
    const {windows, refused} = await reportUsage(own, {entity: 'a', ...range}, {})
    expect(refused).toEqual({requests: 9, byParent: 4, blocked: 5})
    expect(windows[0]).toMatchObject({refused: {requests: 5, blocked: 5}, limits: []})
    expect(windows[2]).toMatchObject({
      refused: {requests: 3, byParent: 4, blocked: 0},
      limits: [
        {name: 'rpm', tokens: 2, refused: NOT_REFUSED},
        {name: 'tpm', tokens: 0, share: 0, refused: {requests: 3, tokens: 150}},
      ],
    })
    expect(await totalUsage(own, {resource: 'r', ...range})).toMatchObject({
      refused: {requests: 9, byParent: 4, blocked: 5},
      totals: [{name: 'rpm'}, {name: 'tpm', tokens: 9, windows: 1, refused: {requests: 4, tokens: 200}}],
    })
    const {consumers} = await topConsumers(own, {...range, resource: 'r', by: 'refused', most: 10})
    expect(
      [...consumers].map(({entity, share, refused}) => [entity, share, refusedTotal(refused), refused.blocked]),
    ).toEqual([['a', 1, 13, 5]])
  })

  it('rank a child that only its parent refused by these refusals, as watch shows them', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10']))
    await use(tenant, 'child', 'r', 1, {rpm: 2}, 2, refusals(0, 30))
    await use(tenant, 'sibling', 'r', 1, {rpm: 2}, 2, refusals(0, 10))
    await use(tenant, 'parent', 'r', 1, {rpm: 4}, 4, refusals(40))
    const top = await topConsumers(own, {...range, resource: 'r', by: 'refused', most: 10})
    expect([...top.consumers].map(({entity, share}) => [entity, share])).toEqual([
      ['parent', 1],
      ['child', 0.75],
      ['sibling', 0.25],
    ])
    const scope = {units: undefined, resource: 'r', by: 'refused', isByEntity: false, isCsv: false, names: top.names}
    const listing = topListing([...top.consumers], scope)
    const column = listing.columns.find(({name}) => name === 'refused')
    expect(listing.rows.map(row => column?.value(row))).toEqual([40, 30, 10])
  })

  it('S10 bound how many refusals both an entity and its parent counted', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    for (const id of ['team', 'other']) await own.entities.create({id})
    for (const id of ['m1', 'm2']) await own.entities.create({id, parent: 'team', cascade: true})
    await own.entities.create({id: 'lone', parent: 'other', cascade: true})
    // 7 requests exceeded limits of m1 and of the team. The team refused 20 more of m1 and 30 of m2; m1 refused 5 more.
    await use(tenant, 'm1', 'r', 1, {rpm: 2}, 2, refusals(5 + 7, 20))
    await use(tenant, 'm2', 'r', 2, {rpm: 2}, 2, refusals(0, 30))
    await use(tenant, 'team', 'r', 1, {rpm: 4}, 2, refusals(20 + 7 + 30))
    await use(tenant, 'team', 'r', 2, {rpm: 4}, 2)
    await use(tenant, 'lone', 'r', 1, {rpm: 2}, 2, refusals(100))
    await use(tenant, 'other', 'r', 1, {rpm: 2}, 2)
    const subject = {resource: 'r', ...range}
    const total = await totalUsage(own, subject)
    expect(total.refused.requests - total.refusedTwice).toBe(5 + 7 + 20 + 30 + 100)
    expect(total.refusedTwice).toBe(7)
    expect(await reportUsage(own, subject, {})).toMatchObject({refusedTwice: 7})
    for (const entity of ['m1', 'team'])
      expect(await totalUsage(own, {...subject, entity})).toMatchObject({refusedTwice: 0})
    // A page may lack refusals that only the team counted.
    const page = await reportUsage(own, subject, {limit: 5})
    expect(page.refusedTwice).toBeGreaterThanOrEqual(7)
    // The team seems not to have been charged for m1: it had another parent, and the families of now say too little.
    await use(tenant, 'm1', 'r', 3, {rpm: 2}, 2)
    await use(tenant, 'former', 'r', 3, {rpm: 2}, 2)
    await use(tenant, 'team', 'r', 3, {}, 0)
    expect(await totalUsage(own, subject)).toMatchObject({doubtful: 2, refusedTwice: (12 + 57 + 100 - 50 - 1) / 2})
  })

  it('rank consumers by requests or by a limit, over configured and live resources', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.configs.set({level: 'resource', resource: 'r'}, parseLimits(['rpm=10']))
    await putBucket(tenant, {entity: 'x', resource: 'live', limits: parseLimits(['rpm=1'])})
    await use(tenant, 'many', 'r', 1, {rpm: 9, tpm: 1}, 9)
    await use(tenant, 'large', 'r', 1, {rpm: 1, tpm: 90}, 1)
    await use(tenant, 'large', 'r', 2, {rpm: 1, tpm: 9}, 1)
    await use(tenant, 'x', 'live', 2, {rpm: 1}, 1)
    await use(tenant, 'hidden', 'elsewhere', 2, {rpm: 1}, 100)
    await use(tenant, 'early', 'r', -1, {rpm: 1}, 100)
    const ranked = async (by: string, resource?: string, most = 10) => {
      const top = await topConsumers(own, {...range, by, most, resource})
      return {...top, consumers: [...top.consumers].map(({entity, share}) => `${entity} ${share.toFixed(2)}`)}
    }
    expect(await ranked('requests')).toEqual({
      consumers: ['many 0.75', 'large 0.17', 'x 0.08'],
      total: 3,
      resources: ['live', 'r'],
      complete: true,
      count: 3,
      hasOthers: false,
      doubtful: 0,
      names: {used: ['rpm', 'tpm'], overdrawn: [], refused: []},
    })
    expect((await ranked('tpm', 'r', 1)).consumers).toEqual(['large 0.99'])
    expect((await ranked('requests', 'elsewhere')).consumers).toEqual(['hidden 1.00'])
    await use(tenant, 'x', 'r', 2, {rpm: 1, tpm: 20}, 4)
    const added = await topConsumers(own, {...range, by: 'requests', most: 10, isByEntity: true})
    expect([...added.consumers].map(({entity, requests}) => `${entity} ${requests}`)).toEqual([
      'many 9',
      'x 5',
      'large 2',
    ])
    expect([...added.consumers][1]).toMatchObject({limits: new Map([['rpm', 2], ['tpm', 20]])}) // biome-ignore format: short
    expect([...added.consumers][1]).not.toHaveProperty('resource')
    await expect(ranked('tps')).rejects.toMatchObject({code: 'usage.by', details: {limits: ['rpm', 'tpm']}})
    await expect(ranked('requests', 'nothing')).rejects.toMatchObject({code: 'resource.missing', kind: 'notFound'})
  })
})

import {describe, expect, it} from 'vitest'
import {
  changesOf,
  deletedUsage,
  entityCreatedLines,
  entityDeletionLines,
  entityDeletionPhrase,
  entityJson,
  entityListing,
  entityOverviewLines,
  entityUpdatedLines,
  overviewJson,
} from '../../../src/lib/cli/entity/presenter.js'
import {kindCounts} from '../../../src/lib/cli/output/kind-counts.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import type {EntityOverview, ResourceOverview} from '../../../src/lib/insight/lookup/entity-overview.js'
import type {EntityRecord} from '../../../src/lib/schema/entity-record.js'
import {listed, listedCsv} from '../../helpers/lines.js'

const user: EntityRecord = {
  namespace: 'ns',
  entity: 'user',
  name: 'User',
  parent: 'team',
  cascade: true,
  metadata: {tier: 'gold'},
  createdAt: '2026-01-01T00:00:00Z',
  version: 2,
}
const plain: EntityRecord = {...user, entity: 'team', name: 'team', parent: undefined, cascade: false, metadata: {}}
const flags = {'no-header': false}
const NO_USAGE = {since: null, requests: 0, money: []}
const rpm = {name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 60}

const overview: EntityOverview = {
  id: 'user',
  record: user,
  levels: 'parent',
  parents: [plain],
  resources: [
    {
      resource: 'gpt-4',
      source: 'entity',
      cascade: undefined,
      limits: [{...rpm, capacityNow: 100, available: -3}],
      shards: 2,
    },
    {
      resource: 'search',
      source: 'entity_default',
      cascade: undefined,
      limits: [{...rpm, capacityNow: 100, available: undefined}],
      shards: 0,
    },
    {
      resource: 'web',
      source: 'resource',
      cascade: undefined,
      limits: [{...rpm, capacityNow: 100, available: 1000}],
      shards: 1,
    },
    {resource: 'free', source: undefined, cascade: undefined, limits: [], shards: 1},
    {
      resource: undefined,
      source: 'system',
      cascade: undefined,
      limits: [{...rpm, capacityNow: 100, available: undefined}],
      shards: 0,
    },
  ],
}

describe('entities', () => {
  it('have the same JSON keys in every case', () => {
    expect(entityJson(user)).toEqual({
      id: 'user',
      name: 'User',
      parent: 'team',
      cascade: true,
      metadata: {tier: 'gold'},
      createdAt: '2026-01-01T00:00:00Z',
      version: 2,
    })
    expect(entityJson({...plain, createdAt: ''})).toMatchObject({parent: null, createdAt: null})
  })

  it('are listed as text and as CSV', async () => {
    const listing = entityListing([user, {...plain, createdAt: ''}], 'none')
    expect(await listed(listing, flags, 80)).toEqual([
      'ID    NAME  PARENT  CASCADE  CREATED',
      'user  User  team    yes      2026-01-01T00:00:00Z',
      'team  team  -       no       -',
    ])
    expect(listedCsv(listing, {...flags, columns: 'id,cascade,metadata,version'})).toEqual([
      'id,cascade,metadata,version',
      'user,true,tier=gold,2',
      'team,false,,2',
    ])
    expect(await listed(entityListing([], 'none'), flags, 80)).toEqual(['none'])
  })

  it('name every parent that requests charge, when they are created and updated', () => {
    const org = {...plain, entity: 'org'}
    const team = {...user, entity: 'team', parent: 'org'}
    const family = (levels: 'all' | 'parent') => ({parents: [team, org], levels})
    expect(entityCreatedLines(user, family('all'))).toEqual(
      expect.arrayContaining(['  parent    team → org', '  cascade   yes, requests also charge team and org']),
    )
    expect(entityCreatedLines(user, family('parent'))).toContain(
      '  cascade   yes, requests also charge the parent, but not org',
    )
    const moved = (levels: 'all' | 'parent') =>
      entityUpdatedLines({...user, parent: 'old'}, user, {checked: 0, updated: 0, failed: 0}, family(levels))
    expect(moved('all')).toContain('  also charged  team → org')
    expect(moved('parent')).toContain('  also charged  team')
  })

  it('show each field before and after an update', () => {
    const after = {...user, name: 'X', parent: undefined, cascade: false, metadata: {}}
    expect(changesOf(user, after)).toEqual(['name', 'parent', 'cascade', 'metadata'])
    expect(entityUpdatedLines(user, after, {checked: 2, updated: 1, failed: 1})).toEqual([
      'Changed entity "user"',
      '  name          User → X',
      '  parent        team → (none)',
      '  cascade       yes → no',
      '  metadata      tier=gold → (none)',
      '  live buckets  1 updated, 1 failed; run the command again',
    ])
    expect(entityUpdatedLines(user, {...user, version: 3}, {checked: 1, updated: 0, failed: 0})).toEqual([
      'Entity "user" already has these values; nothing was changed',
    ])
    // Looks the same, and is not.
    expect(changesOf({...user, metadata: {seat: 7}}, {...user, metadata: {seat: '7'}})).toEqual(['metadata'])
  })

  it('a deletion states the usage that reports lose, and how to keep it', () => {
    const limits = new Map([
      ['rpm', {total: 1367, windows: 1, average: 1367, overdrawn: 0}],
      ['usd', {total: 820_000, windows: 1, average: 820_000, overdrawn: 0}],
    ])
    const sums = {window: 'monthly', windows: 1, totalEvents: 1367, limits} as const
    const starts = {firstStart: '2026-11-01T00:00:00Z', lastStart: '2026-11-01T00:00:00Z'}
    const usage = deletedUsage({...sums, ...starts}, new Map([['usd', 'USD']]))
    expect(usage).toEqual({
      since: starts.firstStart,
      requests: 1367,
      money: [{limit: 'usd', unit: 'USD', amount: '0.82'}],
    })
    const effect = {id: 'user', parent: undefined, block: false, blocks: [], where: ' --stack s', usage}
    const counts = kindCounts({entity: 1})
    expect(entityDeletionPhrase(counts, effect)).toContain(
      'kept. Its usage since 2026-11-01 will be missing in reports and exports: 1,367 requests, usd $0.82. To keep it, ' +
        'first run: zael usage export --window monthly --since 2026-11-01 --stack s > usage.csv. Later requests',
    )
    const planned = entityDeletionLines(counts, effect, true)
    expect(planned).toContain(
      'Its usage since 2026-11-01 will be missing in reports and exports: 1,367 requests, usd $0.82.',
    )
    expect(planned.find(line => line.endsWith('keep its usage first'))).toMatch(
      /^ {2}zael usage export --window monthly/,
    )
    expect(entityDeletionLines(counts, effect, false)).toContain(
      'Its usage since 2026-11-01 is no longer in reports and exports: 1,367 requests, usd $0.82.',
    )
  })

  it('a deletion is described before and after', () => {
    const counts = kindCounts({entity: 1, bucket: 2})
    const effect = {id: 'user', parent: 'team', block: false, blocks: [], where: '', usage: NO_USAGE}
    const everything = {level: 'entity', entity: 'user', resource: '_default_'} as const
    expect(entityDeletionPhrase(counts, effect)).toBe(
      'This permanently deletes 3 items of entity "user", with its usage; its audit events are kept. Later requests of ' +
        'user are admitted: the limits of the resource apply, and its parent team is not charged',
    )
    expect(entityDeletionPhrase(counts, {...effect, blocks: [{scope: everything}]})).toMatch(
      / kept\. user stays blocked: every later request is refused$/,
    )
    expect(entityDeletionLines(counts, effect, true)).toEqual([
      'Deleting entity "user" would permanently delete:',
      '  entity         1',
      '  bucket shards  2',
      '  total          3',
      'Its audit events are kept.',
      'Later requests of user are admitted: the limits of the resource apply, and its parent team is not charged.',
      '',
      'Next:',
      '  zael entity delete user          delete it',
      '  zael entity delete user --block  delete it and refuse every request with this id',
    ])
    for (const [block, flag] of [
      [false, ''],
      [true, ' --block'],
    ] as const)
      expect(entityDeletionLines(counts, {...effect, block, blocks: [{scope: everything}]}, true).slice(-2)).toEqual([
        'Next:',
        `  zael entity delete user${flag}  delete it; the block stays`,
      ])
    const one = {...everything, resource: 'gpt-4'}
    expect(entityDeletionLines(counts, {...effect, parent: undefined, blocks: [{scope: one}]}, false).slice(4)).toEqual(
      [
        'Its audit events are kept.',
        'user stays blocked for gpt-4.',
        'Later requests of user for other resources are admitted: the limits of the resource apply.',
        '',
        'Next:',
        '  zael entity disable user  refuse every request with this id',
      ],
    )
    const untilMs = Date.parse('2026-11-18T22:40:00Z')
    const temporary = {...effect, blocks: [{scope: everything, untilMs}]}
    expect(entityDeletionPhrase(counts, temporary)).toMatch(
      / kept\. user stays blocked only until 2026-11-18 22:40 UTC\. Later requests of user are admitted: .* not charged$/,
    )
    expect(entityDeletionLines(counts, temporary, true).at(-1)).toContain('zael entity delete user --block')
    expect(entityDeletionLines(counts, temporary, false).at(-1)).toBe(
      '  zael entity disable user  refuse every request with this id',
    )
    const mixed = [{scope: one}, {scope: {...one, resource: 'embed'}, untilMs}]
    expect(entityDeletionLines(counts, {...effect, parent: undefined, blocks: mixed}, false).slice(5, 8)).toEqual([
      'user stays blocked for gpt-4.',
      'user stays blocked for embed only until 2026-11-18 22:40 UTC.',
      'Later requests of user for other resources are admitted: the limits of the resource apply.',
    ])
    expect(entityDeletionLines(counts, {...effect, blocks: [{scope: everything}]}, false).at(-1)).toBe(
      '  zael entity enable user  lift the block',
    )
  })
})

describe('an entity with its limits', () => {
  it('shows balances of money as money', async () => {
    const [first, ...others] = overview.resources
    if (!first) throw new Error('no resource')
    const usd = {...parseLimit('usd=$3/month@UTC'), capacityNow: 3_000_000, available: 1_425_000}
    const lines = await entityOverviewLines({...overview, resources: [{...first, limits: [usd]}, ...others]}, 120)
    expect(lines.find(line => line.includes('usd'))).toMatch(/ \$1\.425 +\$3 /)
  })

  it('shows its record, then the limits that apply, their scope and their levels', async () => {
    expect(await entityOverviewLines(overview, 80)).toEqual([
      'Entity "user"',
      '  name      User',
      '  parent    team',
      '  cascade   yes, requests also charge the parent',
      '  metadata  tier=gold',
      '  created   2026-01-01T00:00:00Z',
      '',
      'RESOURCE     LIMIT        SET FOR            AVAILABLE  CAPACITY  SHARDS',
      'gpt-4        rpm=100/min  entity + resource         -3       100       2',
      'search       rpm=100/min  entity                     -       100       -',
      'web          rpm=100/min  resource               1,000       100       1',
      '(any other)  rpm=100/min  system                     -       100       -',
    ])
    expect((await entityOverviewLines({...overview, resources: []}, 80)).at(-1)).toBe('No limits apply to it.')
    expect((await entityOverviewLines({...overview, record: undefined, parents: []}, 80))[0]).toBe(
      'Entity "user" has no record; it has limits or buckets',
    )
  })

  it('shows a switch instead of a balance, and whose it is', async () => {
    const off = {access: 'disabled', scope: {level: 'entity', entity: 'user', resource: '_default_'}} as const
    const free = {access: 'bypass', scope: {level: 'resource', resource: 'web'}} as const
    const [first, second, third] = overview.resources as [ResourceOverview, ResourceOverview, ResourceOverview]
    const resources = [{...first, access: off}, second, {...third, access: free}]
    const lines = await entityOverviewLines({...overview, resources}, 80)
    expect(lines.slice(6)).toEqual([
      'Disabled: every request is refused (gpt-4). Set for entity user for every resource.',
      'Bypassed: every request is admitted and not charged (web). Set for resource web.',
      '',
      'RESOURCE  LIMIT        SET FOR            AVAILABLE  CAPACITY  SHARDS',
      'gpt-4     rpm=100/min  entity + resource   disabled       100       2',
      'search    rpm=100/min  entity                     -       100       -',
      'web       rpm=100/min  resource            bypassed       100       1',
    ])
    const set = {at: '2026-01-02T03:04:05Z', by: 'ada'}
    const told = {...off, set, untilMs: Date.UTC(2026, 0, 3), reason: 'leaked'}
    const toldOverview = {...overview, resources: [{...first, access: told}]}
    expect((await entityOverviewLines(toldOverview, 200))[6]).toBe(
      'Disabled: every request is refused. Set for entity user for every resource at 2026-01-02 03:04 UTC by ada, ' +
        'until 2026-01-03 00:00 UTC. Reason: leaked',
    )
    const [json] = overviewJson(toldOverview).resources
    expect(json?.access).toMatchObject({setAt: '2026-01-02T03:04:05Z', setBy: 'ada', reason: 'leaked'})
    const everywhere = {...overview, resources: resources.map(each => ({...each, access: off}))}
    expect(await entityOverviewLines(everywhere, 80)).toContain(
      'Disabled: every request is refused. Set for entity user for every resource.',
    )
    expect(overviewJson({...overview, resources}).resources.map(({access}) => access)).toMatchObject([
      {access: 'disabled', setFor: {level: 'entity_default', entity: 'user'}},
      null,
      {access: 'bypass', setFor: {level: 'resource', resource: 'web'}},
    ])
  })

  it('shows the whole chain of parents, and where it breaks', async () => {
    const team = {...plain, parent: 'org'}
    const chain = async (parents: EntityRecord[]) => (await entityOverviewLines({...overview, parents}, 80))[2]
    expect(await chain([team, {...plain, entity: 'org'}])).toBe('  parent    team → org')
    expect(await chain([team])).toBe('  parent    team → org (does not exist)')
    expect(await chain([])).toBe('  parent    team (does not exist)')
    // Another client has made a circle of them.
    expect(await chain([{...plain, parent: 'user'}])).toBe('  parent    team → user, a cycle')
  })

  it('prints all of it in JSON', () => {
    const result = overviewJson(overview)
    expect(result).toMatchObject({registered: true, id: 'user', parents: [{id: 'team', name: 'team', cascade: false}]})
    expect(result.resources).toEqual([
      {
        resource: 'gpt-4',
        source: 'entity',
        cascade: null,
        access: null,
        limits: [{...rpm, capacityNow: 100, available: -3}],
        shards: 2,
      },
      {
        resource: 'search',
        source: 'entity_default',
        cascade: null,
        access: null,
        limits: [{...rpm, capacityNow: 100, available: null}],
        shards: 0,
      },
      {
        resource: 'web',
        source: 'resource',
        cascade: null,
        access: null,
        limits: [{...rpm, capacityNow: 100, available: 1000}],
        shards: 1,
      },
      {resource: 'free', source: null, cascade: null, access: null, limits: [], shards: 1},
      {
        resource: null,
        source: 'system',
        cascade: null,
        access: null,
        limits: [{...rpm, capacityNow: 100, available: null}],
        shards: 0,
      },
    ])
    const unregistered = overviewJson({...overview, record: undefined, parents: []})
    expect(Object.keys(unregistered)).toEqual(Object.keys(result))
    expect(unregistered).toMatchObject({registered: false, id: 'user', name: null, version: null})
  })
})

import {describe, expect, it} from 'vitest'
import {
  sparkLines,
  summaryFooter,
  summaryListing,
  usageFooter,
  usageListing,
  usageTitle,
} from '../../../src/lib/cli/usage/presenter.js'
import {topFooter, topListing, topOrder} from '../../../src/lib/cli/usage/top-presenter.js'
import {NOT_REFUSED} from '../../../src/lib/insight/usage/refused.js'
import type {LimitTotal, UsageWindow} from '../../../src/lib/insight/usage/usage-report.js'
import {listed, listedCsv} from '../../helpers/lines.js'

const PLAIN = {columns: undefined, sort: undefined, 'no-header': false}
const range = {sinceMs: Date.UTC(2026, 10, 1), untilMs: Date.UTC(2026, 10, 2)}

const hour = (at: string, tokens: number, requests = 1): UsageWindow => ({
  entity: 'user-1',
  resource: 'gpt-4',
  start: `2026-11-01T${at}:00:00Z`,
  end: '',
  requests,
  refused: {requests: 0, byParent: 0, blocked: 0},
  limits: [{name: 'tpm', tokens, overdrawn: 0, budget: 1000, share: tokens / 1000, refused: NOT_REFUSED}],
})
const total = (tokens: number, start: string): LimitTotal => ({
  resource: 'gpt-4',
  name: 'tpm',
  tokens,
  overdrawn: 0,
  windows: 2,
  average: tokens / 2,
  peak: {tokens: 900, entity: 'user-1', start},
  refused: NOT_REFUSED,
})

/** An hour in which a limit had too little for some requests. */
const refusing = (at: string, requests: number, byParent = 0): UsageWindow => ({
  ...hour(at, 5),
  refused: {requests, byParent, blocked: 0},
  limits: [
    {name: 'tpm', tokens: 5, overdrawn: 0, budget: 1000, share: 0.005, refused: {requests, tokens: 400 * requests}},
  ],
})
const NONE = {requests: 0, byParent: 0, blocked: 0}

describe('usage show', () => {
  it('shows subject and time range in the title, in UTC', () => {
    const scope = {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'} as const
    expect(usageTitle(scope)).toBe(
      'Hourly usage of user-1 · gpt-4, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)',
    )
    expect(usageTitle({window: 'monthly', range})).toMatch(/^Monthly usage, 2026/)
  })

  it('omits columns that the title names', async () => {
    const headers = async (scope: object) =>
      (await listed(usageListing([hour('10', 1)], {window: 'hourly', range, ...scope}, false), PLAIN, 120))[0]
    expect(await headers({entity: 'user-1'})).toBe(
      'START             RESOURCE  LIMIT  USED  BUDGET  SHARE              REQUESTS',
    )
    expect(await headers({resource: 'gpt-4'})).toContain('ENTITY')
    expect(await headers({resource: 'gpt-4', entity: 'user-1'})).not.toMatch(/ENTITY|RESOURCE/)
  })

  it('prints all names, plain numbers and no bar in CSV', () => {
    const listing = usageListing([hour('10', 5)], {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'}, true)
    expect(listedCsv(listing, PLAIN)).toEqual([
      'start,entity,resource,limit,used,budget,share,requests,overdrawn,refused,refused-tokens',
      '2026-11-01T10:00:00Z,user-1,gpt-4,tpm,5,1000,0.005,1,0,0,0',
    ])
  })

  it('adds columns for refusals if there are any', async () => {
    const scope = {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'} as const
    const windows = [refusing('10', 3), hour('09', 5)]
    expect(await listed(usageListing(windows, scope, false), PLAIN, 120)).toEqual([
      'START             LIMIT  USED  BUDGET  SHARE              REQUESTS  REFUSED  REFUSED TOKENS',
      '2026-11-01 10:00  tpm       5   1,000   <1 %  ░░░░░░░░░░         1        3           1,200',
      '2026-11-01 09:00  tpm       5   1,000   <1 %  ░░░░░░░░░░         1        0               0',
    ])
    const totals = {
      requests: 2,
      doubtful: 0,
      refusedTwice: 0,
      refused: {requests: 3, byParent: 40, blocked: 0},
      totals: [],
    }
    expect(usageFooter(windows, totals, {window: 'hourly', entity: 'user-1', isPart: false})[1]).toBe(
      'Total: 2 requests, 43 refused, including 40 by the parent only',
    )
  })

  it('names the provider account that refused, and counts its refusals once', async () => {
    const byProvider = [{entity: 'org', resource: 'models', requests: 5}]
    const refused = {requests: 2, byParent: 2, blocked: 0, byProvider}
    const window = {...hour('10', 5), refused}
    const scope = {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'} as const
    const rows = await listed(usageListing([window], scope, false), PLAIN, 120)
    expect(rows.slice(2).map(row => row.replace(/ +/g, ' '))).toEqual([
      '2026-11-01 10:00 (org) - - - - 1 5 0',
      '2026-11-01 10:00 (parent) - - - - 1 2 0',
    ])
    const totals = {requests: 2, doubtful: 0, refusedTwice: 0, refused, totals: []}
    const footer = (of: object) => usageFooter([window], totals, {window: 'hourly', isPart: false, ...of})[1]
    const parts = 'including 5 by org · models and 2 by the parent only'
    expect(footer({entity: 'user-1'})).toBe(`Total: 2 requests, 9 refused, ${parts}`)
    // The account counts them in its own resource.
    expect(footer({resource: 'gpt-4'})).toBe(`Total: 2 requests, 7 refused, ${parts}`)
    expect(footer({resource: 'models'})).toBe(`Total: 2 requests, 7 refused, ${parts}`)
  })

  it('counts requests that a parent refused once in the total of all entities', () => {
    const refused = {requests: 294, byParent: 207, blocked: 87}
    const totals = {requests: 2, doubtful: 0, refusedTwice: 0, refused, totals: []}
    const total = (isPart: boolean) => usageFooter([hour('10', 5)], totals, {window: 'hourly', isPart})[1]
    expect(total(false)).toBe('Total: 2 requests, 294 refused, including 87 by a block and 207 by the parent only')
    const all = {...totals, refused: {requests: 3, byParent: 3, blocked: 0}}
    expect(summaryFooter(all, {windows: 3, complete: true})[0]).toMatch(/3 refused, all by the parent only$/)
    expect(total(true)).toContain('2 requests, at least 294 refused, including')
    expect(summaryFooter(totals, {windows: 3, complete: true})[0]).toContain('in 3 windows, 294 refused, including 87')
    expect(summaryFooter(totals, {windows: 3, entity: 'e', complete: true})[0]).toContain(' windows, 501 refused, ')
    const both = {...totals, refusedTwice: 12}
    expect(summaryFooter(both, {windows: 3, complete: true})).toEqual([
      'Total: 2 requests in 3 windows, 282 to 294 refused, including 87 by a block and 207 by the parent only',
      'Up to 12 refused requests exceeded limits of both an entity and its parent. The higher total counts them twice.',
    ])
    expect(usageFooter([hour('10', 5)], both, {window: 'hourly', isPart: true})[1]).toContain('at least 282 to 294')
  })

  it('adds rows for requests that a block or only the parent refused, so that rows and total agree', async () => {
    const scope = {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'} as const
    const windows = [
      {...refusing('10', 3), refused: {requests: 10, byParent: 4, blocked: 7}},
      {...hour('09', 5), limits: [], refused: {requests: 2, byParent: 0, blocked: 2}},
    ]
    expect(listedCsv(usageListing(windows, scope, true), PLAIN).slice(1)).toEqual([
      '2026-11-01T10:00:00Z,user-1,gpt-4,tpm,5,1000,0.005,1,0,3,1200',
      '2026-11-01T10:00:00Z,user-1,gpt-4,(blocked),,,,1,,7,0',
      '2026-11-01T10:00:00Z,user-1,gpt-4,(parent),,,,1,,4,0',
      '2026-11-01T09:00:00Z,user-1,gpt-4,(blocked),,,,1,,2,0',
    ])
    const totals = {
      requests: 2,
      doubtful: 0,
      refusedTwice: 0,
      refused: {requests: 12, byParent: 4, blocked: 9},
      totals: [],
    }
    expect(usageFooter(windows, totals, {window: 'hourly', entity: 'user-1', isPart: false})[1]).toBe(
      'Total: 2 requests, 16 refused, including 9 by a block and 4 by the parent only',
    )
  })

  it('shows lost contention in a window without limits', async () => {
    const scope = {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'} as const
    const bare = {...refusing('10', 2), limits: []}
    expect(listedCsv(usageListing([bare], scope, true), PLAIN)[1]).toBe('2026-11-01T10:00:00Z,user-1,gpt-4,,,,,1,,2,0')
  })

  it('shows no share for a removed limit, and requests for a window without tokens', async () => {
    const old = {name: 'old', tokens: 5, overdrawn: 0, budget: null, share: null, refused: NOT_REFUSED}
    const gone = {...hour('10', 5), limits: [old]}
    const bare = {...hour('09', 5), limits: []}
    const scope = {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'} as const
    expect((await listed(usageListing([gone, bare], scope, false), PLAIN, 120)).slice(1)).toEqual([
      '2026-11-01 10:00  old       5       -      -  -         1',
      '2026-11-01 09:00  -         -       -      -  -         1',
    ])
  })

  it('shows totals in the footer, whether they are partial, and the meaning of 100 %', () => {
    const windows = [hour('10', 900, 3), hour('08', 100, 2)]
    const totals = {
      requests: 5,
      doubtful: 0,
      refusedTwice: 0,
      refused: NONE,
      totals: [total(1000, windows[0]?.start ?? '')],
    }
    expect(usageFooter(windows, totals, {window: 'daily', isPart: false})).toEqual([
      '',
      'Total: 5 requests',
      '  gpt-4: tpm 1,000',
      '100 % is the amount that a rate allows per day (or its burst, if larger), or the whole allowance of a quota.',
    ])
    expect(
      usageFooter(
        windows,
        {requests: 5, doubtful: 0, refusedTwice: 0, refused: NONE, totals: []},
        {window: 'hourly', isPart: true},
      )[1],
    ).toBe('Total of the 2 windows shown: 5 requests')
    expect(
      usageFooter(
        [],
        {requests: 0, doubtful: 0, refusedTwice: 0, refused: NONE, totals: []},
        {window: 'hourly', isPart: false},
      ),
    ).toEqual([])
  })

  it('shows hours without usage as zero in sparklines', () => {
    const windows = [hour('10', 900), hour('07', 450)]
    expect(sparkLines(windows, [total(1350, '2026-11-01T10:00:00Z')], {window: 'hourly'})).toEqual([
      'gpt-4 tpm  ▅▁▁█  peak 900 at 2026-11-01 10:00',
    ])
    expect(sparkLines([], [], {window: 'hourly'})).toEqual([])
  })

  it('shows at most the newest 60 windows in a curve', () => {
    const day = (at: number): UsageWindow => ({
      ...hour('00', 900),
      start: `${new Date(Date.UTC(2026, 0, at)).toISOString().slice(0, 19)}Z`,
    })
    const [curve = ''] = sparkLines([day(1), day(100)], [total(1800, '2026-01-01T00:00:00Z')], {window: 'daily'})
    expect(curve).toContain(`  ${'▁'.repeat(59)}█  `)
  })
})

describe('usage summary and top', () => {
  it('names the entity of a peak only if there are several', async () => {
    const header = async (scope: object) =>
      (
        await listed(
          summaryListing([total(1, '2026-11-01T10:00:00Z')], {window: 'hourly', range, ...scope}, false),
          PLAIN,
          120,
        )
      )[0]
    expect(await header({resource: 'gpt-4'})).toMatch(/ PEAK AT +BY$/)
    expect(await header({entity: 'user-1'})).not.toContain('BY')
  })

  it('uses singular and plural in the footer', () => {
    expect(
      summaryFooter({requests: 1, doubtful: 0, refusedTwice: 0, refused: NONE}, {windows: 1, complete: true}),
    ).toEqual(['Total: 1 request in 1 window'])
    expect(
      summaryFooter({requests: 1000, doubtful: 2, refusedTwice: 0, refused: NONE}, {windows: 2, complete: true}),
    ).toEqual([
      'Total: 1,000 requests in 2 windows',
      'Up to 2 requests and their tokens count twice if an entity changed its parent in this time.',
    ])
  })

  it('counts consumers and names their resources in top', () => {
    const refused = {
      requests: 2,
      byParent: 0,
      blocked: 1,
      lastAtMs: 1,
      limits: new Map([['tpm', {requests: 2, tokens: 5678}]]),
    }
    const consumers = [
      {
        entity: 'a',
        resource: 'r',
        requests: 3,
        share: 0.75,
        limits: new Map([['tpm', 1234]]),
        overdrawn: new Map([['tpm', 2]]),
        refused,
      },
    ]
    const names = {used: ['tpm'], overdrawn: ['tpm'], refused: ['tpm']}
    const found = {names, resources: ['r', 's'], complete: true, hasOthers: false, doubtful: 0}
    const top = {consumers, count: 1, total: 2, ...found}
    expect(
      listedCsv(topListing(consumers, {by: 'requests', isByEntity: false, resource: 'r', names, isCsv: true}), PLAIN),
    ).toEqual([
      'entity,resource,share,requests,used-tpm,overdrawn-tpm,refused,refused-tpm,blocked',
      'a,r,0.75,3,1234,2,2,5678,1',
    ])
    const added = consumers.map(({resource: _, ...rest}) => rest)
    const byEntity = topListing(added, {...topOrder('entity,tpm'), resource: undefined, names, isCsv: true})
    expect(listedCsv(byEntity, PLAIN)[0]).toBe(
      'entity,share,requests,used-tpm,overdrawn-tpm,refused,refused-tpm,blocked',
    )
    expect(['tpm', 'entity', 'entity, tpm', 'refused', 'parent,usd'].map(topOrder)).toEqual([
      {by: 'tpm', isByEntity: false, isByParent: false},
      {by: 'requests', isByEntity: true, isByParent: false},
      {by: 'tpm', isByEntity: true, isByParent: false},
      {by: 'refused', isByEntity: false, isByParent: false},
      {by: 'usd', isByEntity: true, isByParent: true},
    ])
    const requests = {by: 'requests', resource: undefined}
    expect(topFooter(top, requests)).toEqual(['', '1 of 2 consumers (resources: r, s)'])
    expect(topFooter(top, {...requests, resource: 'r'})).toEqual(['', '1 of 2 consumers'])
    expect(topFooter({...top, hasOthers: true, doubtful: 7}, {by: 'usd', resource: 'r'})).toEqual([
      '',
      '1 of 2 consumers',
      'Entities without recorded use of usd are not listed. If only a parent has a limit, its use is recorded for the parent.',
      'Up to 7 requests and their tokens count twice if an entity changed its parent in this time.',
    ])
    expect(topFooter({...top, total: 0, resources: []}, requests)).toEqual([
      'Searched every resource with its own limits or live buckets (resources: none).',
    ])
  })
})

describe('in a narrow terminal', () => {
  const entity = 'customer-acme-production'

  it('stacks the rows of usage show, with use and refusals first', async () => {
    const windows = [{...refusing('10', 30), resource: 'gpt-4o-mini-2024'}]
    const listing = usageListing(windows, {window: 'hourly', range, entity}, false)
    expect(await listed(listing, PLAIN, 40)).toEqual([
      '2026-11-01 10:00  gpt-4o-mini-2024  tpm',
      '  USED 5  REFUSED 30  BUDGET 1,000',
      '  SHARE <1 %  REQUESTS 1',
      '  REFUSED TOKENS 12,000',
    ])
    expect((await listed(listing, PLAIN, 80))[0]).toMatch(/^START +RESOURCE +LIMIT +USED .*REFUSED$/)
  })

  it.each([
    ['refused', 'REFUSED', '35'],
    ['requests', 'REQUESTS', '37'],
    ['tpm', 'TOKENS', 'tpm 12,321'],
  ])('keeps names and the ranked figure of usage top --by %s', async (by, header, value) => {
    const refused = {requests: 35, byParent: 0, blocked: 0, lastAtMs: 1, limits: new Map()}
    const limits = new Map([['tpm', 12_321]])
    const consumer = {entity, resource: 'gpt-4', requests: 37, share: 0.13, limits, overdrawn: new Map(), refused}
    const names = {used: ['tpm'], overdrawn: [], refused: []}
    const listing = topListing([consumer], {by, isByEntity: false, resource: undefined, names, isCsv: false})
    const [first, second] = await listed(listing, PLAIN, 80)
    expect(first?.split(/ {2,}/)).toContain(header)
    expect(second).toMatch(new RegExp(`^${entity} +gpt-4 .* ${value}( |$)`))
    expect((await listed(listing, PLAIN, 40)).join('\n')).toMatch(new RegExp(`^${entity} +gpt-4\\s.*${value}`))
  })
})

it('shows the tokens of usage top in full at any width', async () => {
  const limits = new Map([
    ['rpm', 45_120],
    ['tpm', 812_321_000],
    ['usd', 4_100_000],
  ])
  const refused = {requests: 0, byParent: 0, blocked: 0, lastAtMs: 1, limits: new Map()}
  const consumer = {entity: 'noa', resource: 'llm', requests: 45_120, share: 1, limits, overdrawn: new Map(), refused}
  const names = {used: ['rpm', 'tpm', 'usd'], overdrawn: [], refused: []}
  const scope = {isByEntity: false, resource: undefined, names, isCsv: false, units: new Map([['usd', 'USD']])}
  for (const by of ['requests', 'rpm']) {
    const listing = topListing([consumer], {...scope, by})
    expect((await listed(listing, PLAIN, 56)).join('\n')).toContain('rpm 45,120, tpm 812,321,000, usd $4.10')
  }
})

it('adds a column for overdrawn soft limits, and a note in the totals', async () => {
  const scope = {window: 'hourly', range, entity: 'user-1', resource: 'gpt-4'} as const
  const soft = {name: 'tpm', tokens: 1200, overdrawn: 3, budget: 1000, share: 1.2, refused: NOT_REFUSED}
  const windows = [{...hour('10', 1200), limits: [soft]}]
  const [header, row] = await listed(usageListing(windows, scope, false), PLAIN, 120)
  expect([header, row]).toEqual([expect.stringMatching(/REQUESTS +OVERDRAWN$/), expect.stringMatching(/1 +3$/)])
  const totals = {
    requests: 1,
    doubtful: 0,
    refusedTwice: 0,
    refused: NONE,
    totals: [{...total(1200, ''), overdrawn: 1}],
  }
  expect(usageFooter(windows, totals, {window: 'hourly', isPart: false})).toContain(
    '  gpt-4: tpm 1,200 (overdrawn 1 time)',
  )
  const [summary] = await listed(summaryListing(totals.totals, scope, false), PLAIN, 120)
  expect(summary).toContain('OVERDRAWN')
})

it('shows money as money, and as numbers in CSV', async () => {
  const window = {
    ...hour('10', 5),
    limits: [{name: 'usd', tokens: 1_250_000, overdrawn: 0, budget: 5_000_000, share: 0.25, refused: NOT_REFUSED}],
  }
  const scope = {
    window: 'hourly',
    range,
    entity: 'user-1',
    resource: 'gpt-4',
    units: new Map([['usd', 'USD']]),
  } as const
  expect((await listed(usageListing([window], scope, false), PLAIN, 120))[1]).toMatch(/usd +\$1\.25 +\$5 /)
  expect(listedCsv(usageListing([window], scope, true), PLAIN)[1]).toContain('usd,1250000,5000000')
})

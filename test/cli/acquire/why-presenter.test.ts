import {describe, expect, it} from 'vitest'
import {
  remedies,
  whyAllJson,
  whyAllLines,
  whyJson,
  whyLines,
  whyShortLines,
} from '../../../src/lib/cli/acquire/why-presenter.js'
import {typedFlags} from '../../../src/lib/cli/base/settings.js'
import {type Limit, MAX_TOKENS} from '../../../src/lib/core/limits/limit.js'
import {longestOf} from '../../../src/lib/core/limits/limit-state.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {NOT_REFUSED, type RecentUsage} from '../../../src/lib/insight/usage/refused.js'
import type {ExplainedLimit, Explanation} from '../../../src/lib/insight/why/explain.js'

const AT_MS = Date.UTC(2026, 0, 2, 3, 4, 5)

const configured = ({name, capacity, refillAmount, refillPeriodSeconds}: Limit): Limit => ({
  ...{name, capacity, refillAmount, refillPeriodSeconds},
})

const RPM = parseLimit('rpm=100/min')

const limit = (change: Partial<ExplainedLimit> = {}): ExplainedLimit => ({
  ...RPM,
  configured: configured({...RPM, ...(change as Partial<Limit>)}),
  resetsAtMs: undefined,
  tellsUse: change.configured?.reset !== undefined,
  copiedUntilMs: undefined,
  toppedUp: 0,
  entity: 'user-1',
  resource: 'gpt-4',
  level: 'entity',
  source: 'resource',
  scope: {level: 'resource', resource: 'gpt-4'},
  available: 100,
  requested: 1,
  fullAfterMs: 0,
  exceeded: false,
  isPressed: change.exceeded === true,
  retryAfterMs: 0,
  isBypassed: false,
  shards: [{shard: 0, available: 100, capacity: 100}],
  refused: NOT_REFUSED,
  refusedSince: '2026-01-02T02:00:00Z',
  feedback: undefined,
  drainedBy: [],
  reservedBy: [],
  drainedByOthers: 0,
  ...change,
})

const recent = ({admitted = 0, requests = 0, byParent = 0}): RecentUsage => ({
  hour: '2026-01-02T02:00:00Z',
  charged: {tokens: new Map(), requests: admitted},
  since: '2026-01-02T02:00:00Z',
  admitted,
  refused: {
    requests,
    byParent,
    blocked: 0,
    limits: new Map(),
    lastAtMs: requests + byParent > 0 ? Date.UTC(2026, 0, 2, 3, 4, 1) : undefined,
  },
})

const explanation = (limits: ExplainedLimit[], change: Partial<Explanation> = {}): Explanation => ({
  entity: 'user-1',
  resource: 'gpt-4',
  isRegistered: true,
  parents: [],
  leftOut: undefined,
  cascade: undefined,
  atMs: AT_MS,
  hour: '2026-01-02T03:00:00Z',
  admitted: limits.every(each => !each.exceeded),
  retryAfterMs: longestOf(limits.map(each => each.retryAfterMs)),
  disabled: undefined,
  bypassed: [],
  basis: 'asked',
  recent: recent({}),
  limits,
  inFlight: [],
  ...change,
})

const empty = {available: 0, exceeded: true, retryAfterMs: 1500}

describe('an explanation', () => {
  it('says that a request is admitted', () => {
    expect(whyLines(explanation([limit()]))).toEqual([
      'user-1, gpt-4: a request for 1 rpm is admitted now.',
      '',
      'rpm of user-1 has room',
      '  level    100 of 100 left, 1 requested',
      '  set for  resource gpt-4: 100/min',
    ])
  })

  it('shows recent refusals: how many, by which limit, and the last', () => {
    const pressed = {isPressed: true, demandPerSecond: 3.75}
    const refusing = limit({available: 193, refused: {requests: 312, tokens: 262_080}, ...pressed})
    const result = explanation([refusing], {recent: recent({admitted: 688, requests: 312}), basis: 'typical'})
    expect(whyLines(result)).toEqual([
      'user-1, gpt-4: 31 % of requests refused (312 of 1,000 since 2026-01-02T02:00:00Z, last 4 s ago, counted up to 10 s late). A typical ' +
        'request (1 rpm) would be admitted now.',
      '',
      'rpm of user-1 has room now, but refused recently',
      '  level    193 of 100 left, 1 requested',
      '  set for  resource gpt-4: 100/min',
      '  refused  312 requests for 262,080 since 2026-01-02T02:00:00Z',
      '',
      'To refuse fewer requests:',
      '  zael limits set --entity user-1 --resource gpt-4 rpm=250/min  raise the rate of entity user-1 for gpt-4 to ' +
        'admit all: recent demand, with retries, is 2.25 times the rate',
    ])
    expect(whyJson(result)).toMatchObject({
      request: 'typical',
      refused: {requests: 312, byParent: 0, since: '2026-01-02T02:00:00Z', lastAt: '2026-01-02T03:04:01.000Z'},
      recent: {since: '2026-01-02T02:00:00Z', admitted: 688, refused: 312, share: 0.312},
      limits: [{refused: {requests: 312, tokens: 262_080}}],
    })
    expect(whyLines(explanation([limit()], {recent: recent({admitted: 19, byParent: 1})}))[1]).toBe(
      'user-1: 5 % of requests refused (1 of 20 since 2026-01-02T02:00:00Z, 1 only by the parent, last 4 s ago, counted up to 10 s late).',
    )
  })

  it('names the shared scope that refused, its limits and its callers, and when the refusals began', () => {
    const account = {entity: 'provider-x', resource: 'models', level: 'provider', ...empty} as const
    const callers = [
      {entity: 'user-2', resource: 'gpt-4', requests: 3, tokens: 1200},
      {entity: 'user-1', resource: 'gpt-4', requests: 40, tokens: 60},
    ]
    const refusing = limit({...account, refused: {requests: 43, tokens: 43}, callers})
    const most = recent({admitted: 10, byParent: 42})
    const refused = {...most.refused, accounts: new Map([['provider-x#models', 40]])}
    const refusedSince = {atMs: Date.UTC(2026, 0, 2, 2, 42, 7), isHour: false}
    const result = explanation([limit(), refusing], {recent: {...most, refused, refusedSince}})
    const lines = whyLines(result)
    expect(lines[0]).toBe(
      'user-1, gpt-4: 81 % of requests refused (42 of 52 since 2026-01-02T02:00:00Z, ' +
        '40 by provider-x · models (rpm), 2 only by the parent, last 4 s ago, counted up to 10 s late). Refusals began at 2026-01-02 02:42 UTC. ' +
        'A request for 1 rpm is refused now; without other requests, it would be admitted in 2 s.',
    )
    expect(lines).toContain('rpm of the shared scope provider-x · models refuses, clears in 2 s without other requests')
    expect(lines).toContain(
      '  callers  user-2 · gpt-4 1,200 used, 3 refused; user-1 · gpt-4 60 used, 40 refused (since 2026-01-02T02:00:00Z)',
    )
    expect(lines.join('\n')).not.toMatch(/zael (bucket|limits)/)
    expect(lines.at(-1)).toBe(
      'To admit more through the shared scope provider-x · models, limit the caller that uses most of its rpm ' +
        '(user-2 · gpt-4), or raise its limits: those of a provider account at the provider first.',
    )
    expect(whyLines(explanation([limit(account)])).at(-1)).toContain('that use most of its rpm, or raise')
    expect(whyLines(explanation([limit({...empty, callers})])).at(-1)).toContain('through the shared scope user-1')
    expect(whyJson(result).limits[1]?.remedies).toEqual([])
    expect(whyJson(result)).toMatchObject({
      refused: {
        byParent: 2,
        byProvider: [{entity: 'provider-x', resource: 'models', requests: 40}],
        ...{beganAt: '2026-01-02T02:42:07.000Z', beganInHour: '2026-01-02T02:00:00Z'},
      },
      limits: [{level: 'entity'}, {level: 'provider', entity: 'provider-x', resource: 'models', callers}],
    })
    const hour = {...most, refused, refusedSince: {atMs: Date.UTC(2026, 0, 2, 2), isHour: true}}
    expect(whyLines(explanation([limit()], {recent: hour}))[0]).toContain(
      'Refusals began in the hour from 2026-01-02 02:00 UTC.',
    )
  })

  it('says how many leases were not settled, and when', () => {
    const unsettled = {settlements: 2, lastAtMs: Date.UTC(2026, 0, 2, 3, 1)}
    const result = explanation([limit()], {unsettled})
    expect(whyLines(result)).toContain(
      'user-1: the table did not answer in time to settle 2 leases, the last at 2026-01-02 03:01 UTC. ' +
        'They may stay charged as reserved until refill or the reset of a quota.',
    )
    expect(whyJson(result).unsettled).toEqual({settlements: 2, lastAt: '2026-01-02T03:01:00.000Z'})
    expect(whyJson(explanation([limit()])).unsettled).toBeNull()
  })

  it('leads with the share of refused requests, not with the wait of one, if most are refused', () => {
    const most = recent({admitted: 1200, requests: 8300})
    const [first, , second] = whyLines(explanation([limit({...empty, retryAfterMs: 114})], {recent: most}))
    expect(first).toBe(
      'user-1, gpt-4: 87 % of requests refused (8,300 of 9,500 since 2026-01-02T02:00:00Z, last 4 s ago, counted up to 10 s late). ' +
        'A request for 1 rpm is refused now; without other requests, it would be admitted in 114 ms.',
    )
    expect(second).toBe('rpm of user-1 refuses, clears in 114 ms without other requests')
    expect(whyLines(explanation([limit()], {recent: most}))[0]).toMatch(/A request for 1 rpm would be admitted now\.$/)
    const over = {...most, refused: {...most.refused, lastAtMs: AT_MS - 600_000}}
    expect(whyLines(explanation([limit()], {recent: over}))[0]).toBe(
      'user-1, gpt-4: a request for 1 rpm is admitted now.',
    )
  })

  it('gives no share of refusals between which there may be a pause of ten minutes', () => {
    const most = recent({admitted: 640, requests: 160})
    const verdict = (since: string) => whyLines(explanation([limit()], {recent: {...most, since}}))[0]
    expect(verdict('2026-01-02T02:54:00Z')).toBe(
      'user-1, gpt-4: 160 of 800 requests refused (since refusals began at 2026-01-02T02:54:00Z, perhaps with pauses, ' +
        'last 4 s ago, counted up to 10 s late). A request for 1 rpm would be admitted now.',
    )
    expect(verdict('2026-01-02T02:54:02Z')).toContain(
      '20 % of requests refused (160 of 800 since refusals began at 2026-01-02T02:54:02Z, last 4 s ago, counted up to 10 s late)',
    )
  })

  it('says that an average counts writes if the clients count no requests', () => {
    expect(whyLines(explanation([limit()], {basis: 'per-write'}))[0]).toBe(
      'user-1, gpt-4: a request like the average write (1 rpm) is admitted now.',
    )
  })

  it('shows an overdrawn soft limit as overdrawn, not as one with room', () => {
    const soft = limit({available: -2, capacity: 1, configured: {...RPM, capacity: 1, soft: true}})
    const lines = whyLines(explanation([soft]))
    expect(lines.slice(2, 4)).toEqual([
      'rpm of user-1 is soft: it is overdrawn and refuses nothing',
      '  level    -2 of 1 left, 1 requested',
    ])
    expect(whyShortLines({entity: 'user-1', atMs: AT_MS, explanations: [explanation([soft])]})[0]).toContain(
      'rpm -2 of 1 left, 1 requested',
    )
    expect(whyLines(explanation([{...soft, available: 1}]))[2]).toBe('rpm of user-1 has room')
  })

  it('shows the limit, scope, shards, wait and remedies of a refusal', () => {
    const shards = [
      {shard: 0, available: 0, capacity: 50},
      {shard: 1, available: -1200, capacity: 50},
    ]
    expect(whyLines(explanation([limit({...empty, shards})]))).toEqual([
      'user-1, gpt-4: a request for 1 rpm is refused. It will be admitted in 2 s, at 2026-01-02T03:04:07Z.',
      '',
      'rpm of user-1 refuses, clears in 2 s',
      '  level    0 of 100 left, 1 requested',
      '  set for  resource gpt-4: 100/min',
      '  shards   0: 0 of 50, 1: -1,200 of 50',
      '',
      'To admit it sooner:',
      '  zael bucket reset user-1 --resource gpt-4                     refill the bucket of user-1 now',
      '  zael limits set --entity user-1 --resource gpt-4 rpm=200/min  double the rate of entity user-1 for gpt-4; then clears in 750 ms',
    ])
  })

  it('shows for a blocked entity whether it is still used, and the command that lifts the block once', () => {
    const scope = {level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE} as const
    const blocked = (resource: string, requests: number) =>
      explanation([], {resource, disabled: {entity: 'user-1', scope}, admitted: false, recent: recent({requests})})
    const explanations = [blocked('chat', 96), blocked('gpt-4', 0)]
    const lines = whyAllLines({entity: 'user-1', atMs: AT_MS, explanations})
    expect(lines).toContain(
      'user-1: 100 % of requests refused (96 of 96 since 2026-01-02T02:00:00Z, last 4 s ago, counted up to 10 s late).',
    )
    expect(lines).toContain('user-1: no refusals are recorded since 2026-01-02T02:00:00Z.')
    expect(lines.filter(line => line.includes('zael entity enable user-1'))).toHaveLength(1)
  })

  it('says how long a remedy lasts at the recent demand', () => {
    const purposes = (change: Partial<ExplainedLimit>) =>
      remedies(limit({...empty, ...change}), AT_MS).map(each => each[1])
    expect(purposes({demandPerSecond: 100 / 60 + 5})).toEqual([
      'refill the bucket of user-1 now: lasts about 20 s at the recent demand',
      expect.stringContaining('recent demand, with retries, is 4 times the rate'),
    ])
    expect(purposes({demandPerSecond: 1})[0]).toBe('refill the bucket of user-1 now')
    const daily = parseLimit('rpm=100/day@UTC')
    expect(purposes({...daily, configured: daily, demandPerSecond: 0.1})[0]).toBe(
      'add this amount until the reset: lasts about 1 min 40 s at the recent demand',
    )
  })

  it.each([
    ['to the demand of a minute', 'rpm=60/min:10', 0.5, 'rpm=60/min:30', '50 %'],
    ['to twice its value if that demand fits already', 'rpm=60/min:40', 0.5, 'rpm=60/min:80', '50 %'],
    ['of a limit without its own burst', 'rpm=60/min', 1, 'rpm=60/min:120', '100 %'],
  ])(
    'raises the burst %s, not the rate, if the demand is at most the rate',
    (_, text, demandPerSecond, raised, share) => {
      const burst = {...empty, ...parseLimit(text), configured: parseLimit(text), demandPerSecond}
      expect(remedies(limit(burst), AT_MS).at(-1)).toEqual([
        `zael limits set --entity user-1 --resource gpt-4 ${raised}`,
        'raise the burst of entity user-1 for gpt-4, not the rate: recent demand, with retries, is ' +
          `${share} of the rate`,
      ])
    },
  )

  it("names the entities that drained a parent's limit, if usage is recorded", () => {
    const drainedBy = [
      {entity: 'user-2', tokens: 1000},
      {entity: 'user-1', tokens: 2},
    ]
    const parent = {...empty, level: 'parent', entity: 'team-1'} as const
    const lines = (limits: ExplainedLimit[]) =>
      whyLines(explanation(limits, {parents: ['team-1'], cascade: {charged: true, level: 'record', parent: 'team-1'}}))
    expect(lines([limit(), limit({...parent, drainedBy, drainedByOthers: 30})])).toEqual(
      expect.arrayContaining([
        'rpm of the parent team-1 refuses, clears in 2 s',
        '  consumed by  user-2 1,000, user-1 2, others 30 (since 2026-01-02T03:00:00Z; others: its own use, and smaller, moved or deleted members)',
        'Requests of user-1 also charge its parent team-1.',
      ]),
    )
    expect(lines([limit(), limit(parent)])).toContain(
      '  consumed by  no recorded usage yet (since 2026-01-02T03:00:00Z)',
    )
  })

  it('proposes to limit the child that used most of a parent, before the parent is raised', () => {
    const first = (heaviest: ExplainedLimit['heaviest'], text = 'rpm=100/min', at = 0) => {
      const shared = {...empty, level: 'parent', entity: 'team-1', ...parseLimit(text), heaviest} as const
      const json = whyJson(explanation([limit(), limit({...shared, configured: parseLimit(text)})]))
      return json.limits[1]?.remedies.at(at)
    }
    const child = (text: string, entity = 'user-2') => ({entity, share: 0.97, limit: parseLimit(text)})
    expect(first(child('rpm=80/min'))).toEqual({
      command: 'zael limits set --entity user-2 --resource gpt-4 rpm=50/min',
      purpose: 'limit user-2 to half of this limit; it used 97 % since 2026-01-02T03:00:00Z',
    })
    expect(first(child('rpm=10/sec'))?.command).toContain('--entity user-2')
    // The command would raise or change the child's limit.
    for (const other of [child('rpm=50/min'), child('rpm=90/day@UTC'), undefined])
      expect(first(other)?.command).toContain('zael bucket reset team-1')
    expect(first(child('rpm=80/min'), 'rpm=1/min')?.command).toContain('zael bucket reset team-1')
    // It admits nothing more of the refused entity itself.
    expect(first(child('rpm=80/min', 'user-1'))?.command).toContain('zael bucket reset team-1')
    expect(first(child('rpm=80/min', 'user-1'), 'rpm=100/min', -1)).toEqual({
      command: 'zael limits set --entity user-1 --resource gpt-4 rpm=50/min',
      purpose:
        'protect the other members of team-1: limit user-1 to half of this limit; it used 97 % since 2026-01-02T03:00:00Z',
    })
  })

  it.each(['usd=$5/month@UTC', 'usd=$5/5h!'])(
    'proposes a top-up or a higher quota of the parent for %s, which a lower limit of a child would not refill',
    text => {
      const heaviest = {entity: 'user-2', share: 0.97, limit: parseLimit(text.replace('$5', '$20'))}
      const parent = {...empty, level: 'parent', entity: 'team-1', ...parseLimit(text), heaviest} as const
      const json = whyJson(explanation([limit(), limit({...parent, configured: parseLimit(text)})]))
      const commands = json.limits[1]?.remedies.map(({command}) => command) ?? []
      expect(commands[0]).toMatch(/^zael bucket top-up team-1 gpt-4 /)
      expect(commands.at(-1)).toMatch(/^zael limits set --entity team-1 --resource gpt-4 'usd=\$10\//)
      expect(commands.join()).not.toContain('user-2')
    },
  )

  it.each([
    ['to that of its parent', 'rpm=150/min', 'rpm=150/min'],
    ['as the demand needs it if the parent has more', 'rpm=90k/h', 'rpm=300/min'],
    ['not at all if the parent has no higher rate', 'rpm=100/min:900', undefined],
    ['as the demand needs it if the parent has a quota', 'rpm=1/day@UTC', 'rpm=300/min'],
  ])('raises the rate of a member %s', (_, text, raised) => {
    const parent = limit({...parseLimit(text), configured: parseLimit(text), level: 'parent', entity: 'team-1'})
    const above = limit({
      ...parseLimit('rpm=1k/min'),
      configured: parseLimit('rpm=1k/min'),
      level: 'parent',
      entity: 'org',
    })
    const member = limit({...empty, demandPerSecond: 4.5})
    const [own] = whyJson(explanation([member, above, parent])).limits
    const raise = own?.remedies.find(({command}) => command.includes('limits set'))
    expect(raise?.command).toBe(raised && `zael limits set --entity user-1 --resource gpt-4 ${raised}`)
    expect(raise?.purpose.includes('to that of its parent team-1')).toBe(raised && raised === text)
    // A larger burst leaves the rate as it is.
    const large = limit({...empty, requested: 500, retryAfterMs: null})
    const [burst] = whyJson(explanation([large, above, parent])).limits
    expect(burst?.remedies.at(-1)?.command).toContain('rpm=100/min:500')
  })

  it('names amounts and consumption of a limit that only the parent has', () => {
    const usd = {...parseLimit('usd=$5/month@UTC'), level: 'parent', entity: 'team-1', requested: 30_000} as const
    const configuredUsd = parseLimit('usd=$5/month@UTC')
    const parent = limit({...empty, ...usd, configured: configuredUsd, drainedByOthers: 5_000_000})
    const lines = whyLines(explanation([limit(), parent], {parents: ['team-1']}))
    expect(lines[0]).toMatch(/^user-1, gpt-4: a request for 1 rpm and \$0\.03 usd is refused\./)
    expect(lines).toContain(
      '  consumed by  $5 in all, recorded for team-1 only (since 2026-01-02T03:00:00Z; earlier usage: zael usage top team-1 --since 30d)',
    )
    // The entity has the limit too, and came to the parent this hour.
    const own = limit({...usd, level: 'entity', entity: 'user-1', configured: configuredUsd})
    expect(whyLines(explanation([own, parent], {parents: ['team-1']}))).toContain(
      '  consumed by  others $5 (since 2026-01-02T03:00:00Z; others: its own use, and smaller, moved or deleted members; earlier usage: zael usage top team-1 --since 30d)',
    )
    expect(whyLines(explanation([parent], {parents: ['team-1']}))[0]).toMatch(
      /: a request for \$0\.03 usd is refused\./,
    )
    const both = [limit(), limit({level: 'parent', entity: 'team-1'})]
    expect(whyLines(explanation(both, {parents: ['team-1']}))[0]).toBe(
      'user-1, gpt-4: a request for 1 rpm is admitted now.',
    )
  })

  it('says when waiting does not help, and warns about an unknown entity', () => {
    const never = limit({...empty, requested: 500, retryAfterMs: null})
    const lines = whyLines(explanation([never], {isRegistered: false, unknown: {nearest: ['user-2']}}))
    expect(lines[0]).toBe('user-1, gpt-4: a request for 500 rpm is refused, and waiting does not help.')
    expect(lines).toContain('rpm of user-1 refuses, waiting does not help')
    expect(lines).toContain('To admit it:')
    expect(lines[1]).toMatch(/^user-1 is unknown: it has no record, limits, bucket or usage\. .*user-2/)
    expect(whyLines(explanation([never], {isRegistered: false})).join()).not.toContain('unknown')
    expect(whyJson(explanation([never], {unknown: {nearest: []}})).known).toBe(false)
    expect(lines.at(-1)).toContain('zael limits set --entity user-1 --resource gpt-4 rpm=100/min:500 ')
  })
})

describe('a remedy', () => {
  const commands = (change: Partial<ExplainedLimit>) =>
    remedies(limit({...empty, ...change}), AT_MS).map(([each]) => each)

  it('changes the limit for the entity and resource alone, wherever it is set', () => {
    const own = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
    for (const scope of [{level: 'system'}, {level: 'resource', resource: 'gpt-4'}, own] as const)
      expect(commands({scope})[1]).toBe('zael limits set --entity user-1 --resource gpt-4 rpm=200/min')
    expect(commands({scope: {...own, resource: DEFAULT_RESOURCE}, level: 'parent', entity: "o'hara"})).toEqual([
      "zael bucket reset 'o'\\''hara' --resource gpt-4",
      "zael limits set --entity 'o'\\''hara' --resource gpt-4 rpm=200/min",
    ])
  })

  it('has the typed flags of the same stack', () => {
    const settings = {
      stack: {key: 'stack', value: 'prod', source: 'flag', from: '--stack'},
      namespace: {key: 'namespace', value: "it's", source: 'flag', from: '--namespace'},
      region: {key: 'region', value: 'eu-west-1', source: 'environment', from: 'ZAEL_REGION'},
      profile: {key: 'profile', value: undefined, source: 'default', from: undefined},
      endpointUrl: {key: 'endpointUrl', value: undefined, source: 'default', from: undefined},
      output: {key: 'output', value: 'json', source: 'flag', from: '--output'},
    } as const
    const where = typedFlags(settings)
    expect(where).toBe(` --stack prod --namespace 'it'\\''s'`)
    const refused = explanation([limit(empty)])
    for (const {command} of whyJson(refused, where).limits[0]?.remedies ?? []) expect(command).toContain(where)
    expect(whyLines(refused, where).filter(line => line.includes(where))).toHaveLength(2)
  })

  it('is not offered for a limit that admits the request, and never exceeds the largest limit', () => {
    expect(remedies(limit(), AT_MS)).toEqual([])
    expect(commands({capacity: MAX_TOKENS, refillAmount: MAX_TOKENS})[1]).toBe(
      `zael limits set --entity user-1 --resource gpt-4 rpm=${MAX_TOKENS}/min`,
    )
  })
})

it('has the same JSON keys for every limit, and null where waiting never helps', () => {
  const result = whyJson(explanation([limit(), limit({...empty, retryAfterMs: null})]))
  expect(result).toMatchObject({retryAfterMs: null, clearsAt: null, parent: null})
  expect(Object.keys(result.limits[0] ?? {})).toEqual(Object.keys(result.limits[1] ?? {}))
  expect(result.limits[0]).toMatchObject({retryAfterMs: 0, clearsAt: '2026-01-02T03:04:05.000Z', remedies: []})
})

describe('a quota', () => {
  const quota = (text: string, change: Partial<ExplainedLimit> = {}): ExplainedLimit => {
    const one = parseLimit(text)
    return limit({...one, configured: one, ...empty, shards: [], ...change})
  }

  it('shows when it is full again, and is raised as a quota', () => {
    const daily = quota('rpd=10k/day@Europe/Berlin', {resetsAtMs: Date.UTC(2026, 0, 2, 23)})
    const lines = whyLines(explanation([daily]))
    expect(lines.join('\n')).toContain('resets   2026-01-02T23:00:00Z, in 19 h 56 min')
    expect(lines.join('\n')).toContain('resource gpt-4: 10k/day@Europe/Berlin')
    expect(remedies(daily, AT_MS).at(-1)).toEqual([
      'zael limits set --entity user-1 --resource gpt-4 rpd=20k/day@Europe/Berlin',
      'double the quota of entity user-1 for gpt-4, at once',
    ])
    expect(whyJson(explanation([daily])).limits[0]).toMatchObject({
      text: 'rpd=10k/day@Europe/Berlin',
      refillAmount: 0,
      reset: {crons: ['0 0 * * *']},
      timeZone: 'Europe/Berlin',
      resetsAt: '2026-01-02T23:00:00.000Z',
    })
  })

  it('shows the end of an open session, or its duration', () => {
    const shown = (change = {}) => whyLines(explanation([quota('s=200/5h!', change)])).join('\n')
    expect(shown()).toContain('resets   5 h after its first use')
    expect(shown({resetsAtMs: AT_MS + 3_600_000})).toContain('resets   2026-01-02T04:04:05Z, in 1 h\n')
  })

  it('shows money as money, and quotes its command for a shell', () => {
    const money = quota('usd=$500/month@UTC', {available: 1_250_000, requested: 2_000_000})
    const text = whyLines(explanation([money])).join('\n')
    expect(text).toContain('$1.25 of $500 left, $2 requested')
    expect(text).toContain("zael limits set --entity user-1 --resource gpt-4 'usd=$1000/month@UTC'")
  })
})

describe('all resources of an entity', () => {
  const refusing = explanation([limit({...empty, level: 'parent', entity: 'team'})], {
    name: 'Acme',
    recent: recent({admitted: 93, byParent: 7}),
  })
  const fine = explanation([limit({available: 40, requested: 3})], {resource: 'search'})
  const report = {entity: 'user-1', atMs: fine.atMs, explanations: [refusing, fine]}

  it('lists refused resources first and in full, the rest in one sentence each', () => {
    expect(whyAllLines(report, ' --stack x')).toEqual([
      'user-1: 2 resources, 1 refusing now.',
      '',
      ...whyLines(refusing, ' --stack x'),
      '',
      'user-1, search: a request for 3 rpm is admitted now.',
    ])
    expect(whyLines(refusing)[0]).toMatch(/^user-1 \(Acme\), gpt-4: a request for .* is refused/)
    expect(whyAllLines({...report, explanations: [fine]})[0]).toBe('user-1: 1 resource, none refusing now.')
    expect(whyAllLines({...report, explanations: []})).toEqual(['user-1 does not use a resource with limits.'])
  })

  it('shows a block of every resource, unless a resource shows it', () => {
    const scope = {level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE} as const
    const disabled = {entity: 'user-1', scope, reason: 'leaked', set: {at: '2026-01-02T02:42:10Z', by: 'ada@ops'}}
    const blocked = {...report, explanations: [], disabled}
    expect(whyAllLines(blocked, ' --stack x')).toEqual([
      'user-1 is disabled for every resource: every request is refused until the switch is removed.',
      '  set for  entity user-1 for every resource',
      '  set at   2026-01-02 02:42 UTC by ada@ops',
      '  reason   leaked',
      '',
      'Next:',
      '  zael entity enable user-1 --stack x  remove the switch of entity user-1 for every resource',
    ])
    expect(whyAllJson(blocked)).toMatchObject({admitted: false, disabled: {reason: 'leaked', setBy: 'ada@ops'}})
    expect(whyAllJson(report).disabled).toBeNull()
    expect(whyShortLines(blocked)).toEqual(['2026-01-02T03:04:05Z  user-1  disabled for every resource'])
    expect(whyAllLines({...blocked, explanations: [fine]})).toContain(
      'Other resources are disabled for user-1: every request is refused until the switch is removed.',
    )
    const shown = explanation([], {disabled, admitted: false})
    expect(
      whyAllLines({...blocked, explanations: [shown]})
        .join('\n')
        .match(/leaked/g),
    ).toHaveLength(1)
  })

  it('prints one line per resource on request', () => {
    expect(whyShortLines(report)).toEqual([
      '2026-01-02T03:04:05Z  user-1 gpt-4  refused: rpm of the parent team 0 of 100 left, 1 requested, clears in 2 s; ' +
        '7 % of requests refused (7 of 100 since 2026-01-02T02:00:00Z, 7 only by the parent, last 4 s ago, counted up to 10 s late)',
      '2026-01-02T03:04:05Z  user-1 search  fits: rpm 40 of 100 left, 3 requested',
    ])
    const never = explanation([limit({...empty, requested: 200, retryAfterMs: null})])
    expect(whyShortLines({...report, explanations: [never]})[0]).toContain(', waiting does not help')
    const scope = {level: 'resource', resource: 'gpt-4'} as const
    const disabled = {...fine, disabled: {entity: 'user-1', scope}}
    expect(whyShortLines({...report, explanations: [disabled]})[0]).toContain('  disabled for user-1')
  })

  it('prints one JSON document', () => {
    expect(whyAllJson(report)).toMatchObject({
      entity: 'user-1',
      at: '2026-01-02T03:04:05.000Z',
      admitted: false,
      resources: [
        {resource: 'gpt-4', admitted: false, name: 'Acme'},
        {resource: 'search', admitted: true, name: null},
      ],
    })
  })
})

it('shows the balance and time of provider feedback', () => {
  const left = limit({feedback: {atMs: AT_MS - 4000, left: 12}})
  const refused = limit({feedback: {atMs: AT_MS, clearsAtMs: AT_MS + 1500}})
  expect(whyLines(explanation([left])).join('\n')).toMatch(/provider feedback +12 left \(at 2026-01-02T03:04:01Z\)/)
  expect(whyLines(explanation([refused])).join('\n')).toMatch(
    /provider feedback +rate limited until 2026-01-02T03:04:07Z/,
  )
  const over = limit({feedback: {atMs: AT_MS - 9000, clearsAtMs: AT_MS - 1000}})
  expect(whyLines(explanation([over])).join('\n')).toMatch(
    /provider feedback +was rate limited until 2026-01-02T03:04:04Z \(at 2026-01-02T03:03:56Z\)/,
  )
  expect(whyLines(explanation([{...over, ...empty}])).at(-1)).toMatch(/rpm of user-1 was used up until/)
  expect(whyJson(explanation([left])).limits[0]?.feedback).toEqual({
    ...{at: '2026-01-02T03:04:01.000Z', left: 12, inForce: true},
  })
})

it('advises to wait or to ask the provider while its feedback is in force, and to reset nothing', () => {
  const lines = (feedback: ExplainedLimit['feedback']) => whyLines(explanation([limit({...empty, feedback})]))
  const refused = lines({atMs: AT_MS - 4000, clearsAtMs: AT_MS + 60_000})
  expect(refused.at(-1)).toBe(
    'The provider reported that rpm of user-1 is used up until 2026-01-02T03:05:05Z. Wait, or raise the quota at the ' +
      'provider. A reset or a higher limit in zael would lead to 429s of the provider.',
  )
  expect(refused.join('\n')).not.toMatch(/zael (bucket|limits)/)
  expect(lines({atMs: AT_MS - 4000, left: 0}).at(-1)).toMatch(/rpm of user-1 had only 0 left at 2026-01-02T03:04:01Z/)
  const [of] = whyJson(explanation([limit({...empty, feedback: {atMs: AT_MS, clearsAtMs: AT_MS + 1}})])).limits
  expect(of).toMatchObject({remedies: [], feedback: {inForce: true}})
  for (const old of [
    {atMs: AT_MS - 60_000, left: 0},
    {atMs: AT_MS - 90_000, clearsAtMs: AT_MS - 1},
  ])
    expect(lines(old).join('\n')).toContain('zael bucket reset user-1')
})

it('says when, by whom and why a switch was set, or that no event states it', () => {
  const scope = {level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE} as const
  const disabled = {entity: 'user-1', scope, reason: 'leaked', set: {at: '2026-01-02T02:42:10Z', by: 'ada@ops'}}
  const lines = (of: Explanation['disabled']) => whyLines(explanation([], {disabled: of, admitted: false})).slice(1, 4)
  expect(lines(disabled)).toEqual([
    '  set for  entity user-1 for every resource',
    '  set at   2026-01-02 02:42 UTC by ada@ops',
    '  reason   leaked',
  ])
  expect(lines({...disabled, set: undefined})[1]).toBe(
    '  set at   unknown: its audit event has expired, or another client set it',
  )
  const json = whyJson(explanation([], {disabled, admitted: false, retryAfterMs: null}))
  expect(json.disabled).toMatchObject({setAt: '2026-01-02T02:42:10Z', setBy: 'ada@ops', reason: 'leaked'})
})

it('does not call a request admitted without saying that a soft limit is overdrawn', () => {
  const soft = limit({available: -2, configured: {...configured(RPM), soft: true}})
  const text = 'user-1, gpt-4: a request for 1 rpm is admitted now, although rpm is overdrawn (soft).'
  expect(whyLines(explanation([soft]))[0]).toBe(text)
  const all = whyAllLines({entity: 'user-1', atMs: AT_MS, explanations: [explanation([soft])]})
  expect(all).toContain(text)
  expect(all).toContain('rpm of user-1 is soft: it is overdrawn and refuses nothing')
})

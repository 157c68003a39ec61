import {describe, expect, it} from 'vitest'
import {checkedNames, scopeOf, scopeWords} from '../../../src/lib/cli/base/scope.js'
import {type ChangeOutcome, changeJson, limitJson, scopeJson} from '../../../src/lib/cli/limits/json.js'
import {configLines, configListing, unsetQuestion} from '../../../src/lib/cli/limits/presenter.js'
import {changeLines, copyLines, DRY_RUN} from '../../../src/lib/cli/limits/preview.js'
import {resolveJson, resolveLines} from '../../../src/lib/cli/limits/resolve-presenter.js'
import {parseLimit, parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import type {ScopePreview} from '../../../src/lib/insight/preview/preview.js'
import type {Resolution} from '../../../src/lib/repository/limits/resolver.js'
import type {ConfigRecord, ConfigScope} from '../../../src/lib/schema/config-record.js'
import {listed, NO_EFFECT} from '../../helpers/lines.js'

const resource: ConfigScope = {level: 'resource', resource: 'gpt-4'}
const entity: ConfigScope = {level: 'entity', entity: 'user-1', resource: 'gpt-4'}
const entityDefault: ConfigScope = {level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE}
const system: ConfigScope = {level: 'system'}

const record = (scope: ConfigScope, ...limits: string[]): ConfigRecord => ({
  namespace: 'ns',
  scope,
  limits: parseLimits(limits),
  onUnavailable: undefined,
  auditRetentionDays: undefined,
})

const change = (previous: ConfigRecord | undefined, now: ConfigRecord | undefined) => ({
  scope: (previous ?? now)?.scope as ConfigScope,
  before: previous?.limits ?? [],
  after: now?.limits ?? [],
  previous,
  record: now,
})

/** A change without effect on live buckets. */
const lines = (made: ChangeOutcome, dryRun: boolean, preview: Partial<ScopePreview> = {}) => {
  const {scope, before, after} = made
  const effect = {before: {scope, limits: before}, after: {scope, limits: after}, hides: [], uncovers: []}
  return changeLines(made, {...effect, ...NO_EFFECT, names: [], ...preview}, {state: dryRun ? DRY_RUN : '', where: ''})
}

describe('the scope of limits', () => {
  it('comes from the flags, without a default', () => {
    expect(scopeOf({system: true})).toEqual(system)
    expect(scopeOf({system: false, resource: 'gpt-4'})).toEqual(resource)
    expect(scopeOf({system: false, entity: 'user-1'})).toEqual(entityDefault)
    expect(scopeOf({system: false, entity: 'user-1', resource: 'gpt-4'})).toEqual(entity)
    expect(() => scopeOf({system: false})).toThrow(expect.objectContaining({code: 'limits.scope', kind: 'usage'}))
  })

  it.each([{entity: 'no spaces'}, {resource: 'no spaces'}, {resource: DEFAULT_RESOURCE}, {entity: ''}, {resource: ''}])(
    'a name that cannot be one is refused: %j',
    names => {
      const refusal = expect.objectContaining({code: 'name.invalid', kind: 'usage'})
      expect(() => scopeOf({system: false, ...names})).toThrow(refusal)
      expect(() => checkedNames({system: false, ...names})).toThrow(refusal)
    },
  )

  it('has a JSON form and a text form', () => {
    expect([system, resource, entityDefault, entity].map(scopeJson)).toEqual([
      {level: 'system', entity: null, resource: null},
      {level: 'resource', entity: null, resource: 'gpt-4'},
      {level: 'entity_default', entity: 'user-1', resource: null},
      {level: 'entity', entity: 'user-1', resource: 'gpt-4'},
    ])
    expect([system, resource, entityDefault, entity].map(scopeWords)).toEqual([
      'the system',
      'resource gpt-4',
      'entity user-1 for every resource',
      'entity user-1 for gpt-4',
    ])
  })
})

describe('a change of limits', () => {
  const before = record(resource, 'rpm=100/min', 'tpd=1M/day', 'old=5/sec')
  const after = record(resource, 'rpm=200/min:400', 'tpd=1M/day', 'tpm=20k/min')

  it('shows each limit before and after, and how many live buckets were updated', () => {
    const buckets = {checked: 1500, updated: 1200, failed: 1}
    expect(lines({...change(before, after), buckets}, false)).toEqual([
      'Limits of resource gpt-4',
      '  old           5/sec → (none)',
      '  rpm           100/min → 200/min:400',
      '  tpd           1M/day, unchanged',
      '  tpm           (none) → 20k/min',
      '  live buckets  1,200 updated, 299 already up to date, 1 not updated; their next request updates them',
    ])
  })

  it('is marked as a dry run, and shows affected entities instead of updated buckets', () => {
    expect(lines(change(undefined, after), true)).toEqual([
      'Limits of resource gpt-4 (dry run, nothing written)',
      '  rpm      (none) → 200/min:400',
      '  tpd      (none) → 1M/day',
      '  tpm      (none) → 20k/min',
      '  affects  no live buckets',
    ])
  })

  it('shows the outage policy if there is one', () => {
    const blocking = {...record(system, 'rpm=1/min'), onUnavailable: 'block' as const}
    const policy = (was: ConfigRecord, is: ConfigRecord) => lines(change(was, is), true).at(-1)
    expect(policy(record(system), blocking)).toBe('  on unavailable  (none) → block')
    expect(policy(blocking, blocking)).toBe('  on unavailable  block, unchanged')
    expect(policy(blocking, record(system))).toBe('  on unavailable  block → (none)')
  })

  it('shows copied, hidden, uncovered, lost and new limits, and affected entities', () => {
    const [batch, own] = [record(resource, 'rpm=100/min', 'tpd=1/day'), record(entity, 'rpm=100/min', 'tpd=2/day')]
    const copied = {scope: resource, limits: parseLimits(['rpm=100/min'])}
    const level = {before: batch, after: own, hides: [batch], uncovers: []}
    const live = {entities: 1, buckets: 1200, isComplete: false, lost: ['xpm'], losing: 2, unconfigured: 1}
    const names = [{kind: 'limit', name: 'tpd', nearest: ['tpm', 'rpd']}] as const
    expect(lines({...change(undefined, own), copied}, false, {...level, ...live, names})).toEqual([
      'Limits of entity user-1 for gpt-4',
      '  rpm      100/min, unchanged, copied from resource gpt-4',
      '  tpd      1/day → 2/day',
      '  hides    resource gpt-4: rpm=100/min tpd=1/day',
      '  affects  at least 1 entity with 1,200 live buckets',
      '  loses    xpm from at least 2 live buckets; at least 1 live bucket left without limits: requests fail',
      '  new      limit tpd (did you mean tpm or rpd?)',
    ])
    const many = Array.from({length: 7}, () => batch)
    const wide = lines(change(own, undefined), false, {...level, hides: [], uncovers: many})
    expect(wide.at(-2)).toMatch(/^ {2}uncovers {2}resource gpt-4: rpm=100\/min tpd=1\/day; .*; and 2 more$/)
  })

  it('names the command that removes a copy', () => {
    const copied = {scope: resource, limits: parseLimits(['rpm=100/min'])}
    expect(copyLines(copied, {...entity, entity: "o'hara"}, ' --stack prod').at(-1)).toBe(
      "rpm is a copy and does not follow later changes of resource gpt-4. To remove all limits of entity o'hara for gpt-4 and follow it again: " +
        "zael limits unset --all --entity 'o'\\''hara' --resource gpt-4 --stack prod",
    )
    expect(copyLines(undefined, entity, '')).toEqual([])
  })

  it('says when no live bucket is affected', () => {
    const nobody = {...change(before, after), buckets: {checked: 0, updated: 0, failed: 0}}
    expect(lines(nobody, false).at(-1)).toBe('  live buckets  none affected')
  })

  it('lists every limit in JSON', () => {
    const result = changeJson({...change(before, after), buckets: {checked: 2, updated: 2, failed: 0}})
    expect(result.changes.map(({name, before: was, after: is}) => [name, was?.text, is?.text])).toEqual([
      ['old', 'old=5/sec', undefined],
      ['rpm', 'rpm=100/min', 'rpm=200/min:400'],
      ['tpd', 'tpd=1M/day', 'tpd=1M/day'],
      ['tpm', undefined, 'tpm=20k/min'],
    ])
    expect(limitJson(parseLimit('rpm=10/sec:50'))).toEqual({
      name: 'rpm',
      capacity: 50,
      refillAmount: 10,
      refillPeriodSeconds: 1,
      text: 'rpm=10/sec:50',
    })
  })
})

describe('configured limits', () => {
  const whole = {...record(system, 'rpm=60/min'), onUnavailable: 'allow' as const, auditRetentionDays: 1000}

  it('are shown for one scope', () => {
    expect(configLines(whole)).toEqual([
      'Limits of the system',
      '  rpm              60/min',
      '  on unavailable   allow',
      '  audit retention  1,000 days',
    ])
  })

  it('are named in the question before they are removed', () => {
    expect(unsetQuestion(whole)).toBe('This removes rpm and the outage policy (allow) from the system')
  })

  it('are listed for all scopes', async () => {
    const listing = configListing([
      whole,
      record(resource, 'rpm=100/min', 'tpm=20k/min:40k'),
      record(entityDefault, 'a=1/min'),
    ])
    expect(await listed(listing, {'no-header': false}, 80)).toEqual([
      'LEVEL           ENTITY  RESOURCE  LIMITS',
      'system          -       -         rpm=60/min',
      'resource        -       gpt-4     rpm=100/min tpm=20k/min:40k',
      'entity_default  user-1  -         a=1/min',
    ])
    expect((await listed(listing, {'no-header': true, columns: 'level,on-unavailable,audit-retention'}, 80))[0]).toBe(
      'system          allow  1,000',
    )
  })
})

describe('the limits that apply', () => {
  const nothing = (scope: ConfigScope, level: Resolution['trace'][number]['level']) => ({scope, level, limits: []})
  const resolution: Resolution = {
    source: 'resource',
    limits: parseLimits(['rpm=100/min']),
    onUnavailable: undefined,
    trace: [
      nothing(entity, 'entity'),
      nothing(entityDefault, 'entity_default'),
      {level: 'resource', scope: resource, limits: parseLimits(['rpm=100/min'])},
      {level: 'system', scope: system, limits: parseLimits(['rpm=60/min'])},
    ],
  }
  const whose = {entity: 'user-1', resource: 'gpt-4', isRegistered: true}
  const family = {...whose, own: resolution, cascade: undefined, parents: [], leftOut: undefined}

  it('are shown level by level', async () => {
    expect(await resolveLines(family, 80)).toEqual([
      'Limits of user-1 for gpt-4',
      '  rpm  100/min',
      '',
      'SET FOR                                     LIMITS',
      'entity user-1 for gpt-4           not set   -',
      'entity user-1 for every resource  not set   -',
      'resource gpt-4                    applies   rpm=100/min',
      'the system                        not used  rpm=60/min',
    ])
    expect((await resolveLines(family, 40)).slice(3)).toEqual([
      'entity user-1 for gpt-4  not set',
      'entity user-1 for every resource',
      '  not set',
      'resource gpt-4  applies',
      '  LIMITS rpm=100/min',
      'the system  not used',
      '  LIMITS rpm=60/min',
    ])
  })

  it('name the level and value that apply when a temporary copy expires', async () => {
    const untilMs = Date.UTC(2026, 10, 17, 14, 37)
    const boost = {untilMs, isEnded: false, endsCopy: true, windows: 1} as const
    const schedule = [{cron: '* * * * *', capacity: 900, refillAmount: 900}]
    const copied = parseLimits(['rpm=100/min', 'tpm=5/min']).map(limit => ({...limit, schedule, boost}))
    const copy = {level: 'entity', scope: entity, limits: copied, copiedUntilMs: untilMs} as const
    const trace = [copy, ...resolution.trace.slice(1)]
    const own: Resolution = {...resolution, source: 'entity', limits: copied, copiedUntilMs: untilMs, trace}
    expect((await resolveLines({...family, own}, 120)).slice(1, 3)).toEqual([
      '  rpm  900/min until 2026-11-17 14:37 UTC, then 100/min (resource level)',
      '  tpm  900/min until 2026-11-17 14:37 UTC, then no such limit (resource level)',
    ])
    const alone = {...family, own: {...own, trace: [copy]}}
    expect((await resolveLines(alone, 120))[1]).toMatch(/, then no limits, so requests fail$/)
    // A copy at the next level expires first.
    const shorter = trace.map(each => (each.level === 'resource' ? {...each, copiedUntilMs: untilMs - 1} : each))
    expect((await resolveLines({...family, own: {...own, trace: shorter}}, 120))[1]).toMatch(
      /, then 60\/min \(system level\)$/,
    )
  })

  it('are shown with a warning for an entity without a record', async () => {
    expect((await resolveLines({...family, isRegistered: false}, 80)).at(-1)).toContain('user-1 has no record')
  })

  it('are shown for the parent too, even when it has none', async () => {
    const parent = {entity: 'team-1', resolution: {...resolution, source: undefined, limits: []}}
    const lines = await resolveLines({...family, parents: [parent]}, 80)
    expect(lines).toContain('Limits of its parent team-1, also charged for every request: none, so requests fail')
    expect(resolveJson({...family, parents: [parent]})).toMatchObject({
      source: 'resource',
      parent: {entity: 'team-1', source: null},
    })
  })

  it('mark the level that applies in JSON', () => {
    const {levels, source} = resolveJson(family)
    expect(source).toBe('resource')
    expect(levels.map(({level, applies}) => [level, applies])).toEqual([
      ['entity', false],
      ['entity_default', false],
      ['resource', true],
      ['system', false],
    ])
  })
})

import {describe, expect, it} from 'vitest'
import {
  applyLines,
  applyQuestion,
  applyResultJson,
  changeLine,
  diffJson,
  diffLines,
  manifestCounts,
  manifestPlanJson,
  manifestPlanLines,
  validLine,
} from '../../../src/lib/cli/limits/manifest-presenter.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import type {ApplyResult} from '../../../src/lib/manifest/apply.js'
import {parseManifest} from '../../../src/lib/manifest/parse.js'
import type {Plan, PlannedChange, ScopeChange} from '../../../src/lib/manifest/plan.js'
import {NO_EFFECT} from '../../helpers/lines.js'

const limits = (change: Partial<ScopeChange>, before: string[], after: string[]): ScopeChange => ({
  kind: 'limits',
  action: 'update',
  scope: {level: 'resource', resource: 'gpt-4'},
  before: parseLimits(before),
  after: parseLimits(after),
  policies: {},
  adopts: false,
  ...change,
})

const manifest = parseManifest(
  [
    'namespace: acme',
    'system: {on_unavailable: allow}',
    'resources: {gpt-4: {limits: {rpm: 100/min, tpm: 20k/min}}}',
    'entities: {team-1: {limits: {rpm: 5/min}, resources: {gpt-4: {limits: {rpm: 1/min}}}}}',
  ].join('\n'),
  {file: 'limits.yaml'},
)

const plan = (changes: PlannedChange[], counts: Partial<Plan['counts']> = {}): Plan =>
  ({
    manifest,
    changes,
    boosts: [],
    seen: {
      record: {managesSystem: true, resources: ['gpt-4'], entities: new Map([['team-1', ['_default_', 'gpt-4']]])},
    },
    counts: {create: 0, update: 0, delete: 0, adopt: 0, unchanged: 1200, ...counts},
  }) as unknown as Plan

const update = limits({}, ['rpm=100/min', 'tpd=1M/day', 'old=1/sec'], ['rpm=200/min', 'tpd=1M/day', 'tpm=20k/min:40k'])

describe('a planned change', () => {
  it.each<[PlannedChange, string]>([
    [update, '~ resource gpt-4: old 1/sec → (none), rpm 100/min → 200/min, tpm (none) → 20k/min:40k'],
    [limits({action: 'create'}, [], ['rpm=1/min', 'tpm=2/min']), '+ resource gpt-4: rpm=1/min, tpm=2/min'],
    [limits({action: 'delete'}, ['rpm=1/min'], []), '- resource gpt-4: rpm=1/min'],
    [
      limits({scope: {level: 'system'}, adopts: true, onUnavailable: {before: 'block', after: 'allow'}}, [], []),
      '~ the system (not managed yet): on unavailable block → allow',
    ],
    [
      {
        kind: 'entity',
        action: 'create',
        entity: 'user-1',
        before: {},
        after: {parent: 'team-1', cascade: true},
        depth: 1,
      },
      '+ entity user-1: parent team-1, cascade true',
    ],
    [
      {kind: 'entity', action: 'update', entity: 'user-1', before: {parent: 'team-1'}, after: {parent: null}, depth: 0},
      '~ entity user-1: parent team-1 → (none)',
    ],
    [
      {kind: 'entity', action: 'create', entity: 'team-1', before: {}, after: {}, depth: 0},
      '+ entity team-1: a new record',
    ],
  ])('is one line with old and new values: %#', (change, line) => {
    expect(changeLine(change)).toBe(line)
  })
})

describe('the question before a plan is applied', () => {
  const ask = (counts: Partial<Plan['counts']>, loss = {}) => applyQuestion(plan([], counts), {...NO_EFFECT, ...loss})

  it('is asked for updates, deletes and losses, not for additions', () => {
    expect(ask({create: 5, adopt: 2})).toBeUndefined()
    expect(ask({update: 2})).toBe('This updates 2 scopes or records')
    expect(ask({update: 1, delete: 1})).toBe('This updates 1 scope or record and deletes the limits of 1 scope')
    expect(ask({create: 1}, {lost: ['rpm', 'tpm'], losing: 3, isComplete: false})).toBe(
      'This removes limits: rpm and tpm from at least 3 live buckets',
    )
    expect(ask({delete: 1}, {unconfigured: 1})).toContain('1 live bucket left without limits')
  })

  it('follows the list of losses', () => {
    const lines = manifestPlanLines(plan([update]), {...NO_EFFECT, lost: ['old'], losing: 1}, '')
    expect(lines.at(-1)).toBe('Removes limits: old from 1 live bucket')
    expect(manifestPlanJson(plan([update]), {...NO_EFFECT, lost: ['old'], losing: 1}).lost).toEqual({
      limits: ['old'],
      buckets: 1,
      unconfigured: 0,
      complete: true,
    })
  })
})

describe('a plan', () => {
  it('counts its changes', () => {
    expect(manifestPlanLines(plan([update], {update: 1, adopt: 1}), NO_EFFECT, '')).toEqual([
      'Changes in namespace acme',
      `  ${changeLine(update)}`,
      '0 to create, 1 to update, 0 to delete, 1,200 unchanged; 1 existing scope becomes managed',
    ])
    expect(manifestPlanJson(plan([update]), NO_EFFECT)).toMatchObject({
      namespace: 'acme',
      changes: [
        {kind: 'limits', scope: {level: 'resource'}, changes: [{name: 'old', after: null}, {}, {}, {before: null}]},
      ],
    })
  })

  it('reports no changes', () => {
    expect(manifestPlanLines(plan([]), NO_EFFECT, '')).toEqual(['No changes in namespace acme'])
    expect(manifestPlanLines(plan([], {adopt: 2}), NO_EFFECT, '')[0]).toMatch(/; 2 existing scopes become managed$/)
  })
})

it('lists missing, changed and extra limits as drift', () => {
  const differences = [
    {kind: 'missing', change: limits({action: 'create'}, [], ['rpm=1/min'])},
    {kind: 'changed', change: update},
  ] as const
  expect(diffLines({manifest, differences, boosts: [], unlisted: 0})).toEqual([
    'Drift in namespace acme: table → manifest',
    '  missing  + resource gpt-4: rpm=1/min',
    `  changed  ${changeLine(update)}`,
  ])
  expect(diffLines({manifest, differences: [], boosts: [], unlisted: 0})).toEqual(['No drift in namespace acme'])
  expect(diffJson({manifest, differences, boosts: [], unlisted: 0})).toMatchObject({
    drift: true,
    differences: [{difference: 'missing'}, {}],
  })
  expect(diffJson({manifest, differences: [], boosts: [], unlisted: 0})).toEqual({
    namespace: 'acme',
    drift: false,
    differences: [],
    unlisted: 0,
    boosts: [],
  })
})

describe('the result of an apply', () => {
  const result: ApplyResult = {
    outcome: 'complete',
    created: 1,
    updated: 2000,
    deleted: 0,
    adopted: 0,
    failures: [],
    mismatches: [],
    stopped: undefined,
    left: 0,
    buckets: {checked: 0, updated: 0, failed: 0},
    recordFailure: undefined,
  }
  const error = new ZaelError('conflict', 'limits.contended', 'Others keep changing it.\nSecond line')

  it('shows counts', () => {
    expect(applyLines(plan([], {}), result)).toEqual([
      'Applied: everything matches the manifest',
      '  created       1',
      '  updated       2,000',
      '  deleted       0',
      '  live buckets  none affected',
    ])
  })

  it('shows how far it came when it was stopped, and how to resume', () => {
    const stopped = {...result, outcome: 'interrupted', updated: 0, left: 2} as const
    expect(applyLines(plan([update, update, update], {}), stopped).slice(0, 5)).toEqual([
      'Stopped after 1 of 3 changes; run the command again to apply the rest',
      '  created       1',
      '  updated       0',
      '  deleted       0',
      '  not tried     2',
    ])
  })

  it('lists the first failures, and counts the changes not tried', () => {
    const failures = Array.from({length: 12}, () => ({change: update, error}))
    const lines = applyLines(plan([], {}), {...result, outcome: 'failed', failures, left: 5, recordFailure: error})
    expect(lines[0]).toBe('Some changes failed; run the command again to apply the rest')
    expect(lines).toContain('  not tried     5')
    expect(lines.filter(line => line.endsWith(': Others keep changing it.'))).toHaveLength(10)
    expect(lines.at(-1)).toBe('  and 2 more')
    expect(lines.find(line => line.includes('managed list'))).toContain('not updated')
    expect(applyResultJson({...result, failures, recordFailure: error})).toMatchObject({
      failures: expect.arrayContaining([
        {change: expect.anything(), error: {code: 'limits.contended', message: error.message}},
      ]),
      recordFailure: {code: 'limits.contended'},
    })
  })
})

it('summarises a valid manifest in one line', () => {
  expect(manifestCounts(manifest)).toEqual({namespace: 'acme', system: true, resources: 1, entities: 1, limits: 4})
  expect(validLine('limits.yaml', manifest)).toBe(
    'limits.yaml is valid: namespace acme, limits 4, resources 1, entities 1',
  )
})

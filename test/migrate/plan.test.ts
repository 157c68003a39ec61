import {describe, expect, it} from 'vitest'
import {planMigration} from '../../src/lib/migrate/plan.js'
import type {SurveyRow} from '../../src/lib/migrate/survey.js'
import {STEP_IDS} from '../../src/lib/migrate/walk/steps.js'
import {row, surveyOf, wholeTable} from './surveys.js'

const pendingSteps = (survey: Parameters<typeof planMigration>[0]) =>
  planMigration(survey, 100)
    .steps.filter(step => step.isPending)
    .map(({id}) => id)

describe('the plan of a migration', () => {
  it('has every step in order, and nothing to do for a table of the current layout', () => {
    const plan = planMigration(surveyOf(), 100)
    expect(plan.steps.map(({id}) => id)).toEqual(STEP_IDS)
    expect(plan).toMatchObject({isPending: false, items: 0, readUnits: 0, writeUnits: 0, seconds: 0, leftovers: 0})
  })

  it.each<[string, Parameters<typeof surveyOf>[0], string[]]>([
    ['an index', {missing: {indexes: ['GSI4'], stream: false, expiry: false}}, ['indexes']],
    ['the stream', {missing: {indexes: [], stream: true, expiry: false}}, ['indexes']],
    ['expiry', {missing: {indexes: [], stream: false, expiry: true}}, ['indexes']],
    ['the namespace', {registersDefault: true}, ['namespaces']],
    ['entities', {old: [row('entity', 2, {pending: 1})]}, ['configuration', 'catch-up']],
    ['settings', {old: [row('settings', 2, {pending: 1})]}, ['configuration', 'catch-up']],
    ['buckets', {old: [row('bucket', 3, {pending: 1})]}, ['data', 'catch-up']],
    ['usage', {old: [row('usage', 1, {pending: 1})]}, ['data', 'catch-up']],
    ['audit events', {old: [row('audit', 1, {pending: 1})]}, ['data', 'catch-up']],
    ['the version', {schema: {current: '0.8.0', legacy: undefined, isAccepted: false}}, ['version']],
  ])('adds %s to a table that lacks it', (_, part, steps) => {
    expect(pendingSteps(surveyOf(part))).toEqual(steps)
  })

  it('writes a version record where old data has none (C-8)', () => {
    const none = {current: undefined, legacy: undefined, isAccepted: true}
    expect(pendingSteps(surveyOf({schema: none}))).toEqual([])
    expect(pendingSteps(surveyOf({schema: none, old: [row('entity', 2)]}))).toEqual(['version'])
  })

  it('counts copied and expired old items as leftovers for the clean-up only', () => {
    const old: SurveyRow[] = [row('bucket', 3, {items: 10, expired: 4}), row('audit', 2, {items: 5})]
    expect(planMigration(surveyOf({old}), 100)).toMatchObject({isPending: false, leftovers: 15, writeUnits: 0})
  })

  it('costs more with more pending items, larger items and a larger table', () => {
    const cost = (pending: number, bytes: number, tableBytes: number) => {
      const old = [row('audit', 2, {items: 100, pending, bytes})]
      return planMigration(surveyOf({old, bytes: tableBytes}), 100)
    }
    const base = cost(50, 100 * 500, 100_000)
    expect(base).toMatchObject({writeUnits: 100, seconds: 1, items: 50})
    expect(cost(100, 100 * 500, 100_000).writeUnits).toBe(200)
    expect(cost(50, 100 * 1500, 100_000).writeUnits).toBe(200)
    expect(cost(50, 100 * 500, 10_000_000).readUnits).toBeGreaterThan(base.readUnits)
  })

  it('reads the table twice, and once more only when something has to be copied', () => {
    const scans = (part: Parameters<typeof surveyOf>[0]) =>
      planMigration(surveyOf({bytes: 4096 * 1000, ...part}), 100)
        .steps.filter(({readUnits}) => readUnits >= 1000)
        .map(({id}) => id)
    const old = [row('audit', 2)]
    const missing = {indexes: ['GSI4'], stream: false, expiry: false}
    expect(scans({old})).toEqual([])
    expect(scans({old, missing})).toEqual(['configuration', 'data'])
    expect(scans({old: [row('audit', 2, {pending: 1})]})).toEqual(['configuration', 'data', 'catch-up'])
    // Only a complete read shows that no data lacks a namespace.
    expect(scans({missing, hasDefault: false})).toEqual(['namespaces', 'configuration', 'data'])
    expect(scans({missing, hasDefault: false, registersDefault: true})).toEqual(['configuration', 'data'])
  })

  it('includes the copies that a later pass reads, and leaves out locations that it need not query', () => {
    const reads = (old: SurveyRow[], bytes: number) =>
      Object.fromEntries(planMigration(surveyOf({old, bytes}), 100).steps.map(({id, readUnits}) => [id, readUnits]))
    const bulk = reads([row('audit', 2, {items: 10, pending: 10, bytes: 4096 * 1000})], 4096 * 1000)
    expect(bulk.configuration).toBe(1000)
    expect(bulk.data).toBe(1000 + 750 + 10)
    expect(bulk['catch-up']).toBe(1000 + 1500 + 10)
    const limits = (part: Partial<SurveyRow>) =>
      reads([row('limits', 4, {items: 100, pending: 100, bytes: 100, ...part})], 0)
    expect(limits({}).configuration).toBe(600 + 1)
    expect(limits({})['catch-up']).toBe(100 + 1)
    // One item per limit: the others of its scope are queried.
    expect(limits({records: 50})['catch-up']).toBe(50 + 50 + 1)
  })

  it('counts one write for several items that become one', () => {
    const old = (records: number) => [row('limits', 2, {items: 30, records, pending: 30, bytes: 3000})]
    expect(planMigration(surveyOf({old: old(10)}), 100).writeUnits).toBe(80)
    expect(planMigration(surveyOf({old: old(30)}), 100).writeUnits).toBe(240)
  })

  it('takes as long as the rate limit requires', () => {
    const slow = planMigration(wholeTable(), 10)
    const fast = planMigration(wholeTable(), 1000)
    expect(slow.seconds).toBe(Math.ceil(slow.writeUnits / 10))
    expect(fast.seconds).toBeLessThan(slow.seconds)
  })

  it('is pending with a conflict, but has nothing for a run to do', () => {
    const plan = planMigration(surveyOf({old: [row('entity', 2, {items: 3, conflicts: 1})]}), 100)
    expect(plan).toMatchObject({isPending: true, items: 0, conflicts: 1, writeUnits: 0})
    expect(plan.steps.some(step => step.isPending)).toBe(false)
  })

  it('is blocked by another run, and its clean-up by a conflict', () => {
    const {blockers, isPending} = planMigration(wholeTable(), 100)
    expect(blockers).toEqual([
      {blocks: 'run', code: 'running', reason: 'ops@bastion is migrating the table, in step data'},
      expect.objectContaining({blocks: 'cleanup', code: 'conflicts'}),
    ])
    expect(isPending).toBe(true)
    expect(planMigration(surveyOf({run: wholeTable().run}), 100).blockers).toEqual([])
  })
})

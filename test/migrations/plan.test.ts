import {describe, expect, it} from 'vitest'
import {planMigration} from '../../src/lib/migrations/plan.js'
import {STEP_IDS} from '../../src/lib/migrations/steps.js'
import type {SurveyRow} from '../../src/lib/migrations/survey-tally.js'
import {row, surveyOf, wholeTable} from './surveys.js'

const pendingSteps = (survey: Parameters<typeof planMigration>[0]) =>
  planMigration(survey, 100)
    .steps.filter(step => step.isPending)
    .map(({id}) => id)

describe('the plan of a migration', () => {
  it('has every step in order, and nothing to do for a table of today', () => {
    const plan = planMigration(surveyOf(), 100)
    expect(plan.steps.map(({id}) => id)).toEqual(STEP_IDS)
    expect(plan).toMatchObject({isPending: false, items: 0, readUnits: 0, writeUnits: 0, seconds: 0, leftovers: 0})
  })

  it.each<[string, Parameters<typeof surveyOf>[0], string[]]>([
    ['an index', {missing: {indexes: ['GSI4'], stream: false, expiry: false}}, ['indexes']],
    ['the stream', {missing: {indexes: [], stream: true, expiry: false}}, ['indexes']],
    ['expiry', {missing: {indexes: [], stream: false, expiry: true}}, ['indexes']],
    ['the namespace', {registersDefault: true}, ['namespaces']],
    ['entities', {old: [row('entity', 2, {pending: 1})]}, ['entities', 'catch-up']],
    ['settings', {old: [row('settings', 2, {pending: 1})]}, ['limits', 'catch-up']],
    ['buckets', {old: [row('bucket', 3, {pending: 1})]}, ['buckets', 'catch-up']],
    ['usage', {old: [row('usage', 1, {pending: 1})]}, ['usage', 'catch-up']],
    ['audit events', {old: [row('audit', 1, {pending: 1})]}, ['audit', 'catch-up']],
    ['the version', {schema: {current: '0.8.0', legacy: undefined, isAccepted: false}}, ['version']],
  ])('a table that lacks %s gets it', (_, part, steps) => {
    expect(pendingSteps(surveyOf(part))).toEqual(steps)
  })

  it('writes a version record where old data has none (C-8)', () => {
    const none = {current: undefined, legacy: undefined, isAccepted: true}
    expect(pendingSteps(surveyOf({schema: none}))).toEqual([])
    expect(pendingSteps(surveyOf({schema: none, old: [row('entity', 2)]}))).toEqual(['catch-up', 'version'])
  })

  it('old items that are moved, and expired ones, are only left to be cleaned up', () => {
    const old: SurveyRow[] = [row('bucket', 3, {items: 10, expired: 4}), row('audit', 2, {items: 5})]
    expect(planMigration(surveyOf({old}), 100)).toMatchObject({isPending: false, leftovers: 15, writeUnits: 0})
  })

  it('costs more with more pending items, larger items and a larger table, and never less than nothing', () => {
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

  it('several items that become one are written once', () => {
    const old = (records: number) => [row('limits', 2, {items: 30, records, pending: 30, bytes: 3000})]
    expect(planMigration(surveyOf({old: old(10)}), 100).writeUnits).toBe(80)
    expect(planMigration(surveyOf({old: old(30)}), 100).writeUnits).toBe(240)
  })

  it('takes as long as the pace allows', () => {
    const slow = planMigration(wholeTable(), 10)
    const fast = planMigration(wholeTable(), 1000)
    expect(slow.seconds).toBe(Math.ceil(slow.writeUnits / 10))
    expect(fast.seconds).toBeLessThan(slow.seconds)
  })

  it('a conflict is pending, but not for a run', () => {
    const plan = planMigration(surveyOf({old: [row('entity', 2, {items: 3, conflicts: 1})]}), 100)
    expect(plan).toMatchObject({isPending: true, items: 0, conflicts: 1, writeUnits: 0})
    expect(plan.steps.some(step => step.isPending)).toBe(false)
  })

  it('a run elsewhere stands in the way of a run, a conflict in the way of the cleanup', () => {
    const {blockers, isPending} = planMigration(wholeTable(), 100)
    expect(blockers).toEqual([
      {blocks: 'run', code: 'running', says: 'ops@bastion is at it, in step buckets'},
      expect.objectContaining({blocks: 'cleanup', code: 'conflicts'}),
    ])
    expect(isPending).toBe(true)
    expect(planMigration(surveyOf({run: wholeTable().run}), 100).blockers).toEqual([])
  })
})

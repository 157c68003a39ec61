import {describe, expect, it} from 'vitest'
import {stepText} from '../../../src/lib/cli/migrate/run.js'
import {cleanedLines, runJson, runLines, verificationLines} from '../../../src/lib/cli/migrate/run-presenter.js'
import {NOTHING_LIMITLESS} from '../../../src/lib/migrate/limitless/tally.js'
import type {MigrationResult} from '../../../src/lib/migrate/run.js'
import type {Verification} from '../../../src/lib/migrate/verify-migration.js'
import {STEPS} from '../../../src/lib/migrate/walk/steps.js'

const nothing = {count: 0, shown: []}
const noDecisions = {split: 0, keptAsLabelled: 0, superseded: 0}

const result: MigrationResult = {
  runId: 'x',
  resumed: false,
  finished: true,
  settled: true,
  steps: STEPS.map(({id, title}, at) => ({
    id,
    title,
    state: 'done',
    checked: at * 1000,
    written: at,
    expired: 0,
    conflicts: 0,
  })),
  added: ['index GSI3', 'index GSI4'],
  conflicts: nothing,
  unknown: nothing,
  decisions: noDecisions,
  copiedAgain: {},
  limitsWritten: undefined,
  limitless: NOTHING_LIMITLESS,
}

const verification: Verification = {
  clean: true,
  checked: {entity: 3, bucket: 2},
  expired: 0,
  differences: nothing,
  unmovable: 0,
  unknown: nothing,
  decisions: noDecisions,
  limitless: NOTHING_LIMITLESS,
}

const conflict = {type: 'entity', key: 'ENTITY#a #META', state: 'conflict', reason: 'was changed in both'} as const

describe('the result of a run', () => {
  it('names records that were copied again', async () => {
    const lines = await runLines('prod', {...result, copiedAgain: {entity: 2, bucket: 1200}}, 80)
    expect(lines).toContain('Copied again after an earlier complete run: entity 2, bucket 1,200')
    expect(runJson({...result, copiedAgain: {entity: 2}}).copiedAgain).toMatchObject({entity: 2, bucket: 0, usage: 0})
    expect((await runLines('prod', result, 80)).join()).not.toContain('earlier run')
    const decisions = {split: 1, keptAsLabelled: 2, superseded: 3}
    expect(runJson({...result, decisions}).decisions).toEqual({untangled: 1, keptAsLabelled: 2, superseded: 3})
  })

  it('shows all steps when it finished', async () => {
    expect(await runLines('prod', result, 80)).toMatchInlineSnapshot(`
      [
        "Stack "prod" has the current layout",
        "",
        "STEP           STATE  CHECKED  WRITTEN  EXPIRED  CONFLICTS",
        "indexes        done         0        0        0          0",
        "namespaces     done     1,000        1        0          0",
        "configuration  done     2,000        2        0          0",
        "limits         done     3,000        3        0          0",
        "data           done     4,000        4        0          0",
        "catch-up       done     5,000        5        0          0",
        "version        done     6,000        6        0          0",
        "",
        "Added to the table: index GSI3, index GSI4",
        "",
        "Next:",
        "  zael migrate verify -s prod  compare every old item with its new one",
      ]
    `)
  })

  it('shows decisions, conflicts, and that old clients are still writing', async () => {
    const output = await runLines(
      'prod',
      {
        ...result,
        settled: false,
        conflicts: {count: 30, shown: [conflict]},
        unknown: {count: 1, shown: ['a b']},
        decisions: {split: 1, keptAsLabelled: 2, superseded: 3},
      },
      80,
    )
    expect(output.slice(12)).toMatchInlineSnapshot(`
      [
        "",
        "1 day of usage: separated the first hour from the whole day",
        "2 days of usage: the first hour may include the whole day; copied unchanged",
        "3 buckets in several old layouts: kept the last used one",
        "",
        "30 records changed in both layouts. Resolve with \`zael migrate resolve\`:",
        "  ENTITY#a #META: was changed in both",
        "  and 29 more",
        "",
        "1 item of unknown format (unchanged):",
        "  a b",
        "",
        "Old clients are still writing: the last pass found changes. Run the command again after they stop.",
        "",
        "Next:",
        "  zael migrate verify -s prod  compare every old item with its new one",
      ]
    `)
  })

  it('says that it stopped at the requested step, or had nothing to do', async () => {
    expect((await runLines('prod', {...result, finished: false}, 80))[0]).toBe(
      'Stack "prod" is migrated up to the requested step',
    )
    const idle = {...result, added: [], steps: result.steps.map(step => ({...step, written: 0}))}
    expect((await runLines('prod', idle, 80))[0]).toBe('Stack "prod": nothing to do')
  })
})

describe('the result of a comparison', () => {
  it('says whether old and new records agree', async () => {
    expect(await verificationLines('prod', verification, 80)).toMatchInlineSnapshot(`
      [
        "Stack "prod": 5 old items compared, all migrated",
        "",
        "Next:",
        "  zael migrate cleanup -s prod  delete the old items",
      ]
    `)
    const differences = {count: 1, shown: [conflict]}
    const differing = {...verification, clean: false, expired: 4, differences}
    expect(await verificationLines('prod', differing, 80)).toMatchInlineSnapshot(`
      [
        "Stack "prod": 5 old items compared, 1 difference",
        "4 old items expired and not migrated",
        "",
        "Differences:",
        "  ENTITY#a #META: was changed in both",
        "",
        "Next:",
        "  zael migrate run -s prod                                  migrate the differences",
        "  zael migrate resolve 'ENTITY#a #META' --keep new -s prod  resolve a conflict",
      ]
    `)
  })
})

const stuck = {type: 'limits', key: 'RESOURCE#a #CONFIG', state: 'unmovable', reason: 'cannot be moved'} as const

describe('records that cannot be moved', () => {
  it('are distinguished from conflicts and block nothing else', async () => {
    const conflicts = async (...shown: (typeof stuck | typeof conflict)[]) =>
      (await runLines('prod', {...result, conflicts: {count: shown.length, shown}}, 80)).join('\n')
    expect(await conflicts(stuck)).toContain('1 record not migrated:\n  RESOURCE#a #CONFIG: cannot be moved')
    expect(await conflicts(stuck, conflict)).toContain('2 records not migrated, or changed in both layouts:')
    const differences = {count: 30, shown: [stuck]}
    const quoted = {count: 1, shown: [{...conflict, key: "ENTITY#o'hara #META"}]}
    expect(
      (await verificationLines('prod', {...verification, clean: false, differences: quoted}, 80)).join(),
    ).toContain(`zael migrate resolve 'ENTITY#o'\\''hara #META' --keep new`)
    const stuckOnes = {...verification, clean: false, differences, unmovable: 30}
    const next = (await verificationLines('prod', stuckOnes, 80)).slice(-3)
    expect(next).toEqual([
      'Next:',
      '  zael migrate verify --all -s prod  list all differences',
      '  zael migrate cleanup -s prod       delete the other old items',
    ])
    const left = {count: 1, shown: [stuck]}
    expect(cleanedLines('prod', {verification, deleted: {}, left, unknown: nothing})).toEqual([
      'Deleted 0 old items of stack "prod"',
      '',
      '1 record kept:',
      '  RESOURCE#a #CONFIG: cannot be moved',
    ])
  })
})

describe('the result of a clean-up', () => {
  it('shows deleted and kept items', () => {
    expect(cleanedLines('prod', {verification, deleted: {entity: 3}, left: nothing, unknown: nothing})).toEqual([
      'Deleted 3 old items of stack "prod"',
    ])
    expect(cleanedLines('prod', {verification, deleted: {}, left: nothing, unknown: nothing})).toEqual([
      'Stack "prod" has no old items',
    ])
    const left = {count: 1, shown: [conflict]}
    expect(cleanedLines('prod', {verification, deleted: {entity: 1}, left, unknown: nothing})).toContain(
      '1 record changed during the cleanup and kept:',
    )
  })
})

describe('the progress of a migration', () => {
  const progress = {step: 'data', scanned: 5000, total: 20_000, pass: 1, waitingFor: undefined} as const

  it('shows the share, the speed and the time left, and fits its line', () => {
    expect(stepText(progress, 10_000, 80)).toMatchInlineSnapshot(
      `"data  [#######-----------------------]  25%  5,000 of 20,000  500/s  30 s left"`,
    )
    expect(stepText(progress, 10_000, 40).length).toBeLessThan(40)
    expect(stepText({...progress, step: 'catch-up', pass: 2}, 0, 80)).toContain('catch-up, pass 2')
  })

  it('counts items when the total is unknown, and names the pending step', () => {
    expect(stepText({...progress, total: undefined}, 10_000, 80)).toBe('data  5,000 items  500/s')
    expect(stepText({...progress, step: 'indexes', waitingFor: 'GSI4'}, 0, 80)).toBe('indexes: building GSI4')
  })
})

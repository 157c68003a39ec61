import {describe, expect, it} from 'vitest'
import {
  migrationPlanJson,
  migrationPlanLines,
  migrationStatusLines,
  statusJson,
} from '../../../src/lib/cli/migrate/presenter.js'
import {planMigration} from '../../../src/lib/migrate/plan.js'
import type {Survey} from '../../../src/lib/migrate/survey.js'
import {schemaProblems} from '../../e2e/schemas.js'
import {row, surveyOf, wholeTable} from '../../migrate/surveys.js'

const status = async (survey: Survey, width: number) =>
  `\n${(await migrationStatusLines('prod', survey, planMigration(survey, 1000), width)).join('\n')}\n`
const plan = async (survey: Survey, width: number) =>
  `\n${(await migrationPlanLines('prod', survey, planMigration(survey, 1000), width)).join('\n')}\n`

describe('migrate status', () => {
  it('shows a table in the middle of its migration', async () => {
    expect(await status(wholeTable(), 80)).toMatchInlineSnapshot(`
      "
      Stack "prod": 12,345 items, 11,841 of them in older layouts
        recorded  layout 0.8.0, without namespaces
        missing   index GSI4, item expiry
        records   of zae-limiter 0.9.0
        last run  running since 2026-11-01T10:00:00Z by ops@bastion, in step data

      RECORDS         RELEASES  GENERATION  ITEMS  PENDING  CONFLICTS  EXPIRED
      usage           0.1–0.9            1  6,000    5,800          0      200
      entities        0.6–0.9            2  1,200        0          2        0
      audit events    0.6–0.9            2  3,000    3,000          0        0
      limits          0.8–0.9            4    140        0          0        0
      buckets         0.9                4  1,500      900          0       20
      version record  0.8–0.9            4      1        1          0        0

      2 old items conflict with new records, 1 shown:
        ENTITY#user-1 #META: changed in both layouts

      23 items of unknown format (unchanged), 2 shown:
        LOCK#deploy #META
        ENTITY#user-1 #NOTE

      Migration is pending.

      Next:
        zael migrate plan -s prod  show the steps and their cost
      "
    `)
  })

  it('shows a table with the current layout', async () => {
    expect(await status(surveyOf(), 120)).toMatchInlineSnapshot(`
      "
      Stack "prod": 10 items, 0 of them in older layouts
        recorded  layout 0.9.0
        records   of zae-limiter 0.9.0

      Nothing is pending.

      Next:
        zael status -s prod  show the state of the stack
      "
    `)
  })

  it('shows a table that only needs a clean-up', async () => {
    const run = {...wholeTable().run, finishedAt: '2026-11-01T10:20:00Z'} as Survey['run']
    const old = [row('entity', 2, {items: 1})]
    expect(await status(surveyOf({old, run}), 120)).toMatchInlineSnapshot(`
      "
      Stack "prod": 10 items, 1 of them in older layouts
        recorded  layout 0.9.0
        records   of zae-limiter 0.9.0
        last run  finished 2026-11-01T10:20:00Z

      RECORDS   RELEASES  GENERATION  ITEMS  PENDING  CONFLICTS  EXPIRED
      entities  0.6–0.9            2      1        0          0        0

      Nothing is pending. You can clean up 1 item of older layouts.

      Next:
        zael migrate verify -s prod   compare every old item with its new one
        zael migrate cleanup -s prod  delete the old items
      "
    `)
  })

  it('quotes the key of a conflict for the shell', async () => {
    const conflicts = wholeTable().conflicts.map(each => ({...each, key: "ENTITY#o'hara #META"}))
    const survey = surveyOf({conflicts, old: [row('entity', 2, {conflicts: 1})]})
    expect(await plan(survey, 80)).toContain(`zael migrate resolve 'ENTITY#o'\\''hara #META' -s prod`)
  })

  it('shows a table with conflicts to resolve', async () => {
    const {conflicts} = wholeTable()
    const survey = surveyOf({conflicts, old: [row('entity', 2, {conflicts: 1})]})
    expect(await status(survey, 80)).toContain(
      'All items are migrated, except 1 old item with conflicts that you must resolve.',
    )
    expect(await plan(survey, 80)).toMatchInlineSnapshot(`
      "
      All items are migrated, except 1 old item with conflicts that you must resolve.

      Next:
        zael migrate resolve 'ENTITY#user-1 #META' -s prod --keep new  or --keep old
      "
    `)
  })

  it('says why a run stopped', async () => {
    const run = {...wholeTable().run, failure: 'the table was throttled'} as Survey['run']
    expect(await status(surveyOf({run}), 120)).toContain('stopped in step data: the table was throttled')
  })
})

describe('migrate plan', () => {
  it('shows all blockers', async () => {
    expect(await plan(wholeTable(), 80)).toMatchInlineSnapshot(`
      "
      Migration of stack "prod": 9,700 items of older layouts to migrate

      STEP           DESCRIPTION                        ITEMS  READ UNITS  WRITE UNITS
      indexes        Add the missing indexes                2           0            0
      namespaces     nothing to do                          0           0            0
      configuration  nothing to do                          0       4,754            0
      limits         nothing to do                          0           0            0
      data           Copy buckets, usage, audit events  9,700      20,520       27,000
      catch-up       Catch up with later changes            0      20,765            0
      version        Record the new layout                  1           0            2

      About 46,039 read units and 27,002 write units, and more with traffic.
      At 1,000 write units per second this takes about 28 s.
      Old items are kept until \`zael migrate cleanup\`.

      23 items of unknown format (unchanged), 2 shown:
        LOCK#deploy #META
        ENTITY#user-1 #NOTE

      \`zael migrate run\` is blocked: ops@bastion is migrating the table, in step data.

      \`zael migrate cleanup\` is blocked: conflicts in 2 old items must be resolved.

      Next:
        zael migrate status -s prod  show the progress
      "
    `)
  })

  it('shows a small table from before namespaces', async () => {
    const survey = surveyOf({
      old: [row('entity', 1, {pending: 1}), row('bucket', 1, {items: 3, pending: 3, bytes: 900})],
      schema: {current: undefined, legacy: '1.0.0', isAccepted: false},
      missing: {indexes: ['GSI3', 'GSI4'], stream: false, expiry: true},
      registersDefault: true,
    })
    expect(await plan(survey, 120)).toMatchInlineSnapshot(`
      "
      Migration of stack "prod": 4 items of older layouts to migrate

      STEP           DESCRIPTION                        ITEMS  READ UNITS  WRITE UNITS
      indexes        Add the missing indexes                3           0            0
      namespaces     Register the namespace "default"       1           0            8
      configuration  Copy entities and limits               1           4            3
      limits         nothing to do                          0           0            0
      data           Copy buckets, usage, audit events      3          11           12
      catch-up       Catch up with later changes            0           6            0
      version        Record the new layout                  1           0            2

      About 21 read units and 25 write units, and more with traffic.
      At 1,000 write units per second this takes about 1 s.
      Old items are kept until \`zael migrate cleanup\`.

      Next:
        zael migrate run -s prod --dry-run  check without writing
        zael migrate run -s prod            migrate while traffic continues
      "
    `)
  })

  it('shows a table with the current layout', async () => {
    expect(await plan(surveyOf(), 120)).toMatchInlineSnapshot(`
      "
      Nothing is pending.

      Next:
        zael status -s prod  show the state of the stack
      "
    `)
  })
})

describe('in JSON', () => {
  it.each([
    ['a table of today', surveyOf()],
    ['a table in the middle of its migration', wholeTable()],
  ])('%s has the same keys', (_, survey) => {
    const planned = planMigration(survey, 1000)
    expect(schemaProblems('migrate status', statusJson('prod', survey, planned))).toEqual([])
    expect(schemaProblems('migrate plan', migrationPlanJson('prod', survey, planned))).toEqual([])
  })
})

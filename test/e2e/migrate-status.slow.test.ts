import {beforeAll, describe, expect, it} from 'vitest'
import {s} from '../../src/lib/schema/attribute-value.js'
import {connectToEngine, describeOnEngine, useTable} from '../helpers/table.js'
import {makePopulation} from '../migrate/fixtures/make-population.js'
import {strangers} from '../migrate/fixtures/mixture.js'
import {itemsOf, writeGeneration, writeItems} from '../migrate/fixtures/old-table.js'
import {useOldTable} from '../migrate/use-old-table.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'

const population = makePopulation({entities: 6, nowMs: Date.now()})

describeOnEngine('zael migrate run with nothing to do', () => {
  const cli = tableCli(useTable())

  it('says so, and does not ask', async () => {
    expect((await cli.run('migrate run --yes')).code).toBe(0)
    const {code, stdout, stderr} = await cli.run('migrate run')
    expect({code, stderr}).toEqual({code: 0, stderr: ''})
    expect(stdout).toMatch(/^Nothing is pending\.\n/)
  })
})

describeOnEngine('zael migrate status and plan', () => {
  describe('on a table of 0.9', () => {
    const table = useOldTable(4, population.nowMs, undefined, connectToEngine)
    const cli = tableCli(table)
    beforeAll(() => writeItems(table, [...itemsOf(4, population), ...strangers.slice(0, 1)]))

    it('show the old and pending records, as text', async () => {
      const [status, plan] = await Promise.all([
        cli.run('migrate status', {COLUMNS: '80'}),
        cli.run('migrate plan --rate-limit 10', {COLUMNS: '120'}),
      ])
      expect(status).toMatchObject({code: 6, stderr: ''})
      expect(status.stdout.replaceAll(table.name, 'old')).toMatchInlineSnapshot(`
        "Stack "old": 65 items, 64 of them in older layouts
          recorded  layout 0.8.0, without namespaces
          missing   index GSI4, stream, item expiry, namespace "default"

        RECORDS         RELEASES  GENERATION  ITEMS  PENDING  CONFLICTS  EXPIRED
        usage           0.1–0.9            1     26       26          0        0
        audit events    0.6–0.9            2     13       13          0        0
        entities        0.6–0.9            2      6        6          0        0
        registries      0.6–0.9            2      1        0          0        0
        buckets         0.9                4      9        9          0        0
        limits          0.8–0.9            4      7        7          0        0
        registries      0.8–0.9            4      1        0          0        0
        version record  0.8–0.9            4      1        1          0        0

        1 item of unknown format (unchanged):
          ENTITY#user-1 #NOTE

        Migration is pending.

        Next:
          zael migrate plan -s old  show the steps and their cost
        "
      `)
      expect(plan).toMatchObject({code: 0, stderr: ''})
      expect(plan.stdout.replaceAll(table.name, 'old')).toMatchInlineSnapshot(`
        "Migration of stack "old": 61 items of older layouts to migrate

        STEP           DESCRIPTION                        ITEMS  READ UNITS  WRITE UNITS
        indexes        Add the missing indexes                3           0            0
        namespaces     Register the namespace "default"       1           0            8
        configuration  Copy entities and limits              13          60           74
        limits         nothing to do                          0           0            0
        data           Copy buckets, usage, audit events     48          83          140
        catch-up       Catch up with later changes            0          81            0
        version        Record the new layout                  1           0            2

        About 224 read units and 224 write units, and more with traffic.
        At 10 write units per second this takes about 23 s.
        Old items are kept until \`zael migrate cleanup\`.

        1 item of unknown format (unchanged):
          ENTITY#user-1 #NOTE

        Next:
          zael migrate run -s old --dry-run  check without writing
          zael migrate run -s old            migrate while traffic continues
        "
      `)
    })

    it('show the same as JSON', async () => {
      const [status, plan] = await Promise.all([cli.run('migrate status --json'), cli.tell('migrate plan')])
      expect(status).toMatchObject({code: 6, stderr: ''})
      const result = JSON.parse(status.stdout)
      expect(schemaProblems('migrate status', result)).toEqual([])
      expect(result).toMatchObject({
        pending: true,
        schema: {recorded: null, legacy: '0.8.0', accepted: false},
        run: null,
      })
      expect(plan).toMatchObject({pending: true, unknownItems: 1, blockers: []})
    })

    it('are suggested by data commands', async () => {
      const {code, error} = await cli.fail('entity list')
      expect({code, error}).toMatchObject({code: 5, error: {code: 'schema.needs-migration'}})
      expect(error.hint).toContain('zael migrate plan')
    })
  })

  describe('on tables in other states', () => {
    const future = useOldTable(6, population.nowMs, undefined, connectToEngine)
    const ours = useOldTable(5, population.nowMs, undefined, connectToEngine)
    const foreign = useOldTable(2, population.nowMs, undefined, connectToEngine)
    beforeAll(async () => {
      await writeItems(future, [{PK: s('_/SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.11.0')}])
      await writeGeneration(ours, 5, population)
    })

    it('refuse an unknown newer layout', async () => {
      for (const command of ['migrate status', 'migrate plan']) {
        expect(await tableCli(future).fail(command)).toMatchObject({code: 5, error: {code: 'schema.too-new'}})
      }
    })

    it('refuse a table of another program', async () => {
      await writeItems(foreign, [{PK: s('CUSTOMER#1'), SK: s('ORDER#1'), ttl: s('1')}])
      for (const command of ['migrate status', 'migrate plan', 'migrate verify', 'migrate run --yes']) {
        const {code, error} = await tableCli(foreign).fail(command)
        expect({code, error}).toMatchObject({code: 5, error: {code: 'migrate.not-a-limiter-table'}})
      }
    })

    it('refuse bad input', async () => {
      const cli = tableCli(ours)
      expect(await cli.run('migrate plan --rate-limit 0')).toMatchObject({code: 2, stdout: ''})
      expect(await cli.run('migrate status --namespace default')).toMatchObject({code: 2, stdout: ''})
      expect(await tableCli({name: 'nowhere'}).fail('migrate status')).toMatchObject({code: 3})
    })

    it('find old buckets despite a stale version: only the buckets are old', async () => {
      const {code, stdout} = await tableCli(ours).run('migrate status --json')
      const result = JSON.parse(stdout)
      expect({code, kinds: result.old.map(({type}: {type: string}) => type)}).toEqual({
        code: 6,
        kinds: ['bucket', 'settings'],
      })
      expect(result.schema).toEqual({recorded: '0.8.0', legacy: null, accepted: false})
    })
  })
})

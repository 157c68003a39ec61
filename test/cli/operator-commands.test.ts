import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {beforeAll, describe, expect, it} from 'vitest'
import {windowStart} from '../../src/lib/core/window.js'
import {batchWrite} from '../../src/lib/dynamo/batch.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {populate} from '../e2e/populate.js'
import {tableCli} from '../e2e/table-cli.js'
import {ROOT, spawnZael, zael} from '../e2e/zael.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newTenant} from '../repository/namespace-table.js'

const HOUR = 3_600_000
const START = Date.UTC(2026, 10, 1)
const MONTH = '--since 2026-11-01 --until 2026-12-01'
const ESCAPE = '\u001b['

interface ManifestCommand {
  readonly flags: Readonly<Record<string, unknown>>
}

describeOnEngine('commands for operators', () => {
  const table = useTable()
  const cli = tableCli(table)

  beforeAll(async () => {
    const namespace = await populate(table)
    const item = (window: 'hourly' | 'daily', atMs: number) => ({
      put: encodeUsage({
        namespace,
        entity: 'busy',
        resource: 'gpt-4',
        window,
        start: windowStart(window, atMs),
        tokens: new Map([['rpm', 1]]),
        totalEvents: 1,
        ttlSeconds: undefined,
      }),
    })
    // One day, then more hours than one request reads: a filter after paging would find nothing on the first page.
    const hours = Array.from({length: 400}, (_, hour) => item('hourly', START + (24 + hour) * HOUR))
    const {backoff} = newTenant(table)
    await batchWrite(table.transport, table.name, [item('daily', START), ...hours], {backoff})
  })

  describe('C-25 usage is filtered before paging', () => {
    it('fills a page with matching windows, however many others lie between', async () => {
      const {windows, next} = await cli.tell(`usage show busy --window daily ${MONTH} --limit 5`)
      expect(windows).toMatchObject([{start: '2026-11-01T00:00:00Z'}])
      expect(next).toBeNull()
    })

    it('never mixes windows of one type with others, and lists the newest first', async () => {
      const {windows} = await cli.tell(`usage show busy ${MONTH} --all`)
      expect(windows).toHaveLength(400)
      const starts = windows.map(({start}: {start: string}) => start)
      expect(starts).toEqual(starts.toSorted().toReversed())
    })
  })

  describe('C-27 every result can be read by a program', () => {
    it('offers --json in every command, and --output in every command on a stack', async () => {
      const {commands} = JSON.parse(await readFile(join(ROOT, 'oclif.manifest.json'), 'utf8'))
      const entries = Object.entries<ManifestCommand>(commands)
      expect(entries.filter(([, {flags}]) => !('json' in flags)).map(([id]) => id)).toEqual([])
      expect(entries.filter(([, {flags}]) => 'stack' in flags && !('output' in flags)).map(([id]) => id)).toEqual([])
    })

    it('prints one result as a table, JSON, YAML and CSV', async () => {
      const {stdout: csv} = await cli.run('bucket list --resource search --output csv')
      expect(csv).toBe('entity,limit,level,capacity,full,debt,refill,shards,age\nuser-2,rpm,60,60,1,0,1,1,0\n')
      const {stdout: yaml} = await cli.run('bucket list --resource search --output yaml')
      expect(yaml).toMatch(/^resource: search\nbuckets:\n {2}- entity: user-2\n/)
      expect(await cli.tell('bucket list --resource search')).toMatchObject({buckets: [{entity: 'user-2'}]})
    })
  })

  describe('C-28 buckets and top consumers can be seen', () => {
    it.each([
      ['bucket show user-1 gpt-4', '^zael bucket show user-1 --resource gpt-4( |$)'],
      [
        "entity disable --reason leak user-1 'my model'",
        "^zael entity disable --reason leak user-1 --resource 'my model'( |$)",
      ],
      ['bucket show user-1 gpt-4 gpt-5', '^zael bucket show --help$'],
      ['bucket show user-1 gpt-4 -r gpt-5', '^zael bucket show --help$'],
      ['entity show user-1 gpt-4', '^zael entity show --help$'],
    ])('suggests the flag for a resource after the entity: %s', async (typed, hint) => {
      const {code, error} = await cli.fail(typed)
      expect([code, error.code]).toEqual([2, 'command.usage'])
      expect(error.hint).toMatch(new RegExp(hint))
    })

    it('shows levels, shards, debt and pressure with bucket show', async () => {
      const {buckets} = await cli.tell('bucket show user-1')
      expect(buckets).toMatchObject([{shardCount: 2, shards: [{writePressure: 0}, {limits: [{debt: 10}, {debt: 0}]}]}])
    })

    it('shows the largest consumer with usage top', async () => {
      const {consumers} = await cli.tell(`usage top --resource gpt-4 ${MONTH} --limit 1`)
      expect(consumers).toMatchObject([{entity: 'busy', requests: 400}])
    })
  })

  describe('C-32 errors have exit codes by kind, and no stack traces', () => {
    it.each([
      ['usage show user-l', 3],
      ['usage show user-1 --namespace defalt', 3],
      ['usage show user-1 --window weekly', 2],
      ['limits set --resource gpt-4 rpm=0', 2],
      ['limits set --resource gpt-4 wcu=1', 2],
    ])('exits on %s with %i and a message', async (line, code) => {
      const outcome = await cli.run(line)
      expect(outcome).toMatchObject({code, stdout: ''})
      expect(outcome.stderr).toMatch(/^Error: .+\n/)
      expect(outcome.stderr).not.toMatch(/\n {4}at |this is a bug/)
    })

    it('exits with 4 without credentials', async () => {
      const env = {AWS_EC2_METADATA_DISABLED: 'true', AWS_REGION: 'eu-north-1'}
      const {code, stderr} = await zael(['usage', 'show', 'user-1'], {env})
      expect(code).toBe(4)
      expect(stderr).toMatch(/^Error: .*credentials.*\n/i)
      expect(stderr).not.toContain('\n    at ')
    })
  })

  describe('C-33 variables and settings files are read', () => {
    it('reads ZAEL_STACK, ZAEL_NAMESPACE and ZAEL_ENDPOINT_URL; a typed flag takes precedence', async () => {
      const env = {ZAEL_STACK: table.name, ZAEL_ENDPOINT_URL: cli.flags.at(-1) ?? ''}
      expect(await zael(['bucket', 'show', 'user-1'], {env})).toMatchObject({code: 0})
      const elsewhere = {...env, ZAEL_NAMESPACE: 'nowhere'}
      expect(await zael(['bucket', 'show', 'user-1'], {env: elsewhere})).toMatchObject({code: 3})
      expect(await zael(['bucket', 'show', 'user-1', '-n', 'default'], {env: elsewhere})).toMatchObject({code: 0})
    })

    it("reads a project's settings file from every folder below it", async () => {
      const folder = await mkdtemp(join(tmpdir(), 'zael-c33-'))
      try {
        await mkdir(join(folder, 'a', 'b'), {recursive: true})
        const settings = {stack: table.name, endpointUrl: cli.flags.at(-1)}
        await writeFile(join(folder, 'zael.config.json'), JSON.stringify(settings))
        expect(await zael(['bucket', 'show', 'user-1'], {cwd: join(folder, 'a', 'b')})).toMatchObject({code: 0})
      } finally {
        await rm(folder, {recursive: true})
      }
    })
  })

  describe('C-35 lists have pages, relative times, CSV, limits beside usage, and audit filters', () => {
    it('pages usage, accepts time spans, and shows the limit beside the usage', async () => {
      const {windows, next} = await cli.tell(`usage show user-1 --resource gpt-4 ${MONTH} --limit 1`)
      expect(windows).toMatchObject([
        {
          limits: [
            {name: 'rpm', budget: 6000},
            {name: 'tpm', share: 612_345 / 600_000},
          ],
        },
      ])
      expect(next).not.toBeNull()
      expect(await cli.tell('usage show user-1 --since 90m')).toMatchObject({windows: []})
      const {stdout} = await cli.run(`usage show user-1 --resource gpt-4 ${MONTH} --output csv --no-header --limit 1`)
      expect(stdout.split('\n')[0]).toBe('2026-11-01T10:00:00Z,user-1,gpt-4,rpm,60,6000,0.01,60,0,0,0')
    })

    it('filters audit events of a namespace by time and action, and shows details', async () => {
      const {events} = await cli.tell('audit list --since 24h --action entity_created')
      expect(events).toHaveLength(3)
      expect(events[1]).toMatchObject({entity: 'user-1', details: {parent_id: 'team-1'}})
    })
  })

  describe('C-37 colours can be turned off, and errors debugged', () => {
    it('follows FORCE_COLOR, NO_COLOR and --no-color', async () => {
      const printed = async (line: string, env: Record<string, string>) => {
        const {stdout} = await spawnZael([...line.split(' '), ...cli.flags], {env})
        return stdout.includes(ESCAPE)
      }
      expect(await printed('bucket show user-1', {FORCE_COLOR: '1'})).toBe(true)
      expect(await printed('bucket show user-1', {NO_COLOR: '1'})).toBe(false)
      expect(await printed('bucket show user-1 --no-color', {FORCE_COLOR: '1'})).toBe(false)
      expect(await printed('bucket show user-1', {})).toBe(false)
    })

    it('shows where an error happened only with --debug and ZAEL_DEBUG=1', async () => {
      const trace = /\n {4}at /
      expect((await cli.run('bucket show user-l --debug')).stderr).toMatch(trace)
      expect((await cli.run('bucket show user-l', {ZAEL_DEBUG: '1'})).stderr).toMatch(trace)
      expect((await cli.run('bucket show user-l')).stderr).not.toMatch(trace)
      expect((await cli.run('bucket show user-1 --bogus --debug')).stderr).toMatch(trace)
    })
  })
})

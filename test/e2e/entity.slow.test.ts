import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {scanWhere} from '../repository/namespace-items.js'
import {newTenant, put, putBucket, type TestTenant} from '../repository/namespace-table.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'

describeOnEngine('zael entity', () => {
  const table = useTable()
  const cli = tableCli(table)
  const repository = new Repository({stack: table.name, transport: table.transport})
  let tenant: TestTenant
  const everything = () => scanWhere(tenant, () => true)

  beforeAll(async () => {
    const {namespace} = await repository.namespaces.register('default')
    // Real time, because the CLI reads levels by its own clock.
    tenant = {...newTenant(table), namespace: namespace.id, nowMs: Date.now()}
  })

  it('create stores an entity that show displays', async () => {
    expect(await cli.show(`entity create org --name 'The organisation'`, 80)).toMatchInlineSnapshot(`
      "Created entity "org"
        name     The organisation
        created  2026-01-01T00:00:00Z
      "
    `)
    expect(await cli.tell('entity create team --parent org')).toMatchObject({
      id: 'team',
      name: 'team',
      parent: 'org',
      cascade: false,
      metadata: {},
      version: 1,
    })
    expect(
      await cli.show('entity create user --parent team --cascade -m tier=gold -m note=a=b', 80),
    ).toMatchInlineSnapshot(`
      "Created entity "user"
        parent    team → org
        cascade   yes, requests also charge the parent
        metadata  note=a=b, tier=gold
        created   2026-01-01T00:00:00Z
      "
    `)
    const {code, error} = await cli.fail('entity create user')
    expect({code, error}).toMatchObject({code: 5, error: {code: 'entity.exists'}})
    expect(error.hint).toContain('zael entity update user')
  })

  it('create refuses bad input and missing parents', async () => {
    const before = await everything()
    const wrong = ['x -m tier', `'not an id'`, 'x --cascade', 'x --parent nobody']
    expect(await Promise.all(wrong.map(words => cli.fail(`entity create ${words}`)))).toMatchObject([
      {code: 2, error: {code: 'metadata.syntax'}},
      {code: 2, error: {code: 'name.invalid'}},
      {code: 2, error: {code: 'command.usage'}},
      {code: 3, error: {code: 'entity.parent-missing'}},
    ])
    expect(await everything()).toEqual(before)
  })

  it('show lists parents, limits in force with their source, and levels of live buckets', async () => {
    const namespace = await repository.namespace('default')
    await namespace.setLimits({level: 'system'}, parseLimits(['rpm=60/min']))
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=100/day', 'tpm=1k/day:2M']))
    await namespace.setLimits({level: 'entity', entity: 'user', resource: 'search'}, parseLimits(['rpm=10/day']))
    const limits = parseLimits(['rpm=100/day', 'tpm=1k/day:2M'])
    await putBucket(
      {...tenant, nowMs: Date.now()},
      {entity: 'user', resource: 'gpt-4', limits, shardCount: 2, consumed: 30},
    )
    const result = await cli.tell('entity show user')
    expect(result).toMatchObject({
      registered: true,
      parent: 'team',
      parents: [
        {id: 'team', name: 'team', cascade: false},
        {id: 'org', name: 'The organisation', cascade: false},
      ],
      resources: [
        {
          resource: 'gpt-4',
          source: 'resource',
          limits: [
            {name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 86_400, available: 40},
            {name: 'tpm', capacity: 2_000_000},
          ],
          shards: 2,
        },
        {resource: 'search', source: 'entity', limits: [{name: 'rpm', available: null}], shards: 0},
        {resource: null, source: 'system', limits: [{name: 'rpm', capacity: 60}], shards: 0},
      ],
    })
    // A thousand a day is one in a minute and a half: it may come while the pictures are taken.
    const still = (text: string) => text.replaceAll(/1,999,\d{3}/g, '1,999,940')
    expect(still(await cli.show('entity show user', 80))).toMatchInlineSnapshot(`
      "Entity "user"
        parent    team → org
        cascade   yes, requests also charge the parent
        metadata  note=a=b, tier=gold
        created   2026-01-01T00:00:00Z

      RESOURCE     LIMIT          SET FOR            AVAILABLE   CAPACITY  SHARDS
      gpt-4        rpm=100/day    resource                  40        100       2
      gpt-4        tpm=1k/day:2M  resource           1,999,940  2,000,000       2
      search       rpm=10/day     entity + resource          -         10       -
      (any other)  rpm=60/min     system                     -         60       -
      "
    `)
    expect(still(await cli.show('entity show user', 120))).toMatchInlineSnapshot(`
      "Entity "user"
        parent    team → org
        cascade   yes, requests also charge the parent
        metadata  note=a=b, tier=gold
        created   2026-01-01T00:00:00Z

      RESOURCE     LIMIT          SET FOR            AVAILABLE   CAPACITY  SHARDS
      gpt-4        rpm=100/day    resource                  40        100       2
      gpt-4        tpm=1k/day:2M  resource           1,999,940  2,000,000       2
      search       rpm=10/day     entity + resource          -         10       -
      (any other)  rpm=60/min     system                     -         60       -
      "
    `)
  })

  it('show finds an entity without a record, and reports a missing one', async () => {
    const limits = parseLimits(['rpm=60/min'])
    await putBucket(tenant, {entity: 'stray', resource: 'gpt-4', limits})
    expect(await cli.tell('entity show stray')).toMatchObject({registered: false, name: null, parents: []})
    const missing = {code: 3, stdout: '', stderr: 'Error: Entity "usr" does not exist.\nHint: Did you mean "user"?\n'}
    expect(await cli.run('entity show usr')).toEqual(missing)
    expect(await cli.run('entity show user --output csv')).toMatchObject({code: 2, stdout: ''})
  })

  it('list pages, filters and sorts', async () => {
    expect(await cli.show('entity list', 80)).toMatchInlineSnapshot(`
      "ID    NAME              PARENT  CASCADE  CREATED
      org   The organisation  -       no       2026-01-01T00:00:00Z
      team  team              org     no       2026-01-01T00:00:00Z
      user  user              team    yes      2026-01-01T00:00:00Z
      "
    `)
    expect(await cli.show('entity list --columns id,metadata --sort -id --no-header', 120)).toMatchInlineSnapshot(`
      "user  note=a=b, tier=gold
      team  -
      org   -
      "
    `)
    const first = await cli.run('entity list --limit 2')
    expect(first.stdout.split('\n')).toHaveLength(4)
    expect(first.stderr).toBe('More rows exist. Add --all, or --cursor with the value of "next" from --json\n')
    const {stderr} = await cli.run('entity list --limit 2 --output csv')
    const [, cursor] = /^More rows exist. Add --all, or --cursor (\S+)\n$/.exec(stderr) ?? []
    expect(cursor).toBe((await cli.tell('entity list --limit 2')).next)
    expect(await cli.tell(`entity list --limit 2 --cursor ${cursor}`)).toMatchObject({
      entities: [{id: 'user'}],
      next: null,
    })
    expect((await cli.tell('entity list --filter ORGAN')).entities).toMatchObject([{id: 'org'}])
    expect((await cli.run('entity list --filter nothing-like-it --all')).stdout).toBe('No entity matches\n')
    expect((await cli.tell('entity list --prefix te')).entities).toMatchObject([{id: 'team'}])
    expect((await cli.tell('entity list --prefix TE --all')).entities).toEqual([])
    const {entities} = await cli.tell('entity list')
    expect(await cli.tell('entity list --all')).toEqual({entities, deleted: [], next: null})
    for (const all of ['', '--all']) {
      const lines = (await cli.run(`entity list ${all} --output jsonl`)).stdout.trimEnd().split('\n')
      expect(lines.map(line => JSON.parse(line))).toEqual(entities)
    }
    const wrong = ['--cursor nonsense', '--limit 0', '--namespace defalt'].map(flag => cli.fail(`entity list ${flag}`))
    expect(await Promise.all(wrong)).toMatchObject([
      {code: 2, error: {code: 'page.cursor'}},
      {code: 2, error: {code: 'command.usage'}},
      {
        code: 3,
        error: {
          code: 'namespace.missing',
          hint: expect.stringContaining('Did you mean "default"? To create a new one: '),
        },
      },
    ])
  })

  it('update changes only the named fields', async () => {
    const lines = await cli.show('entity update user --no-cascade -m tier=silver -m seat=7 --unset-metadata note', 80)
    expect(lines).toMatchInlineSnapshot(`
      "Changed entity "user"
        cascade       yes → no
        metadata      note=a=b, tier=gold → seat=7, tier=silver
        live buckets  2 updated
      "
    `)
    expect(await cli.tell('entity update user --no-parent --name User')).toMatchObject({
      name: 'User',
      parent: null,
      cascade: false,
      metadata: {tier: 'silver', seat: '7'},
      version: 3,
      changed: ['name', 'parent'],
    })
    expect((await cli.run('entity update user --name User')).stdout).toBe(
      'Entity "user" already has these values; nothing was changed\n',
    )
    expect(await cli.tell('entity update user --parent team --cascade')).toMatchObject({
      version: 4,
      changed: ['parent', 'cascade'],
    })
    const wrong = ['user', 'user --parent org --no-parent', 'nobody --name x', 'org --parent user']
    expect(await Promise.all(wrong.map(words => cli.fail(`entity update ${words}`)))).toMatchObject([
      {code: 2, error: {code: 'entity.no-change'}},
      {code: 2, error: {code: 'command.usage'}},
      {code: 3, error: {code: 'entity.missing'}},
      {code: 5, error: {code: 'entity.cycle'}},
    ])
  })

  it('update asks before requests charge a parent without quota', async () => {
    const namespace = await repository.namespace('default')
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, ['usd=$5/month@UTC'])
    for (const id of ['search', 'spent', 'key-1']) await namespace.entities.create({id})
    const limiter = new RateLimiter({stack: table.name, transport: table.transport})
    await limiter.acquire({entity: 'spent', resource: 'gpt-4', consume: {usd: 5_000_000}})
    await limiter.acquire({entity: 'search', resource: 'gpt-4', consume: {usd: 1_000_000}})
    // Without cascade, the parent is not charged.
    expect(await cli.tell('entity update key-1 --parent spent')).toMatchObject({parent: 'spent', confirmation: null})
    expect(await cli.tell('entity update key-1 --parent search --cascade')).toMatchObject({confirmation: null})
    const question = /^spent has no usd left for gpt-4: key-1 will be refused until \d{4}-\d\d-01 00:00 UTC/
    expect(await cli.fail('entity update key-1 --parent spent')).toMatchObject({
      code: 2,
      error: {code: 'confirm.needed', message: expect.stringMatching(question)},
    })
    const folder = await mkdtemp(join(tmpdir(), 'zael-move-'))
    const [csv, manifest] = [join(folder, 'moves.csv'), join(folder, 'limits.yaml')]
    await writeFile(csv, 'id,parent,cascade\nkey-1,spent,true\n')
    await writeFile(manifest, 'namespace: default\nentities:\n  key-1: {parent: spent, cascade: true}\n')
    for (const [plan, change] of [
      [`entity import ${csv} --dry-run`, `entity import ${csv}`],
      [`limits plan -f ${manifest}`, `limits apply -f ${manifest}`],
    ] as const) {
      expect((await cli.run(plan)).stdout).toContain('spent has no usd left for gpt-4: key-1 will be refused until')
      expect((await cli.fail(change)).error.message).toMatch(/spent has no usd left for gpt-4: key-1 will be refused/)
    }
    await rm(folder, {recursive: true})
    expect((await namespace.entities.get('key-1'))?.parent).toBe('search')
    const told = await cli.tell('entity update key-1 --parent spent --yes')
    expect(told).toMatchObject({parent: 'spent', confirmation: expect.stringMatching(question)})
    // Already charged there: nothing gets worse.
    expect(await cli.tell('entity update key-1 --name One --cascade')).toMatchObject({confirmation: null})
    for (const id of ['key-1', 'search', 'spent']) await namespace.entities.delete(id)
  })

  it('children lists direct children', async () => {
    expect(await cli.show('entity children org', 80)).toMatchInlineSnapshot(`
      "ID    NAME  PARENT  CASCADE  CREATED
      team  team  org     no       2026-01-01T00:00:00Z
      "
    `)
    expect((await cli.tell('entity children team')).entities).toMatchObject([{id: 'user', cascade: true}])
    expect((await cli.run('entity children user')).stdout).toBe('Entity "user" has no children\n')
    expect(await cli.fail('entity children nobody')).toMatchObject({code: 3, error: {code: 'entity.missing'}})
    expect(await cli.fail('entity children org --columns age')).toMatchObject({code: 2, error: {code: 'list.column'}})
  })

  it('delete counts the deleted items, asks, and refuses parents', async () => {
    const before = await everything()
    expect(await cli.fail('entity delete team --yes')).toMatchObject({code: 5, error: {code: 'entity.has-children'}})
    expect(await cli.fail('entity delete nobody --yes')).toMatchObject({code: 3, error: {code: 'entity.missing'}})
    expect(await cli.fail('entity delete user')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    const shown = (text: string) => text.replaceAll(cli.flags.join(' '), 'FLAGS')
    expect(shown(await cli.show('entity delete user --dry-run', 80))).toMatchInlineSnapshot(`
      "Deleting entity "user" would permanently delete:
        entity                      1
        configuration of an entity  1
        bucket shards               2
        total                       4
      Its audit events are kept.
      Later requests of user are admitted: the limits of the resource apply, and its parent team is not charged.

      Next:
        zael entity delete user FLAGS          delete it
        zael entity delete user --block FLAGS  delete it and refuse every request with this id
      "
    `)
    const counts = {entities: 1, entityLimits: 1, buckets: 2, usage: 0, total: 4}
    expect(await cli.tell('entity delete user --dry-run')).toMatchObject({id: 'user', dryRun: true, counts})
    expect(await everything()).toEqual(before)
    expect(await cli.tell('entity delete user --yes')).toMatchObject({id: 'user', dryRun: false, counts})
    expect(await cli.fail('entity show user')).toMatchObject({code: 3})
    expect(shown((await cli.run('entity delete stray --yes')).stdout)).toMatchInlineSnapshot(`
      "Deleted entity "stray":
        bucket shard  1
      Its audit events are kept.
      Later requests of stray are admitted: the limits of the resource apply.

      Next:
        zael entity disable stray FLAGS  refuse every request with this id
      "
    `)
  })
  it('delete states the usage that reports lose, with the command that exports it first', async () => {
    const month = `${new Date().toISOString().slice(0, 7)}-01`
    const record = {
      ...{namespace: tenant.namespace, entity: 'spender', window: 'monthly' as const, start: `${month}T00:00:00Z`},
      ...{totalEvents: 1367, ttlSeconds: undefined},
    }
    await cli.run('entity create spender')
    await cli.run("limits set --resource paid 'usd=$20/month@UTC' --yes")
    await put(tenant, encodeUsage({...record, resource: 'paid', tokens: new Map([['usd', 820_000]])}))
    await put(tenant, encodeUsage({...record, resource: 'gpt-4', tokens: new Map([['rpm', 5]]), totalEvents: 5}))
    const usage = {since: `${month}T00:00:00Z`, requests: 1372, money: [{limit: 'usd', unit: 'USD', amount: '0.82'}]}
    expect(await cli.tell('entity delete spender --dry-run')).toMatchObject({usage})
    const {stdout} = await cli.run('entity delete spender --dry-run')
    expect(stdout).toContain(`missing in reports and exports: 1,372 requests, usd $0.82.`)
    const [, command = ''] = /^ {2}zael (usage export .*) --stack .* > usage\.csv/m.exec(stdout) ?? []
    expect(command).toBe(`usage export --window monthly --since ${month}`)
    expect((await cli.run(command)).stdout).toContain('spender,,paid,monthly,')
    const {error} = await cli.fail('entity delete spender')
    expect(error.message).toContain(
      '1,372 requests, usd $0.82. To keep it, first run: zael usage export --window monthly',
    )
    expect(await cli.tell('entity delete spender --yes')).toMatchObject({usage})
  })

  it('delete keeps a blocked key blocked, blocks with --block, and says what applies to others', async () => {
    await cli.run('limits set --resource chat rpm=100/min')
    for (const id of ['leaked-1', 'leaked-2', 'gone-1']) {
      await cli.run(`entity create ${id} --parent org`)
      expect((await cli.run(`acquire ${id} chat rpm=1`)).code).toBe(0)
    }
    expect(await cli.show('entity delete gone-1 --yes', 200)).toContain(
      'Later requests of gone-1 are admitted: the limits of the resource apply, and its parent org is not charged.\n' +
        '\nNext:\n  zael entity disable gone-1',
    )
    expect((await cli.run('acquire gone-1 chat rpm=1')).code).toBe(0)
    await cli.run('entity disable leaked-1')
    expect(await cli.fail('entity delete leaked-1')).toMatchObject({
      code: 2,
      error: {message: expect.stringContaining('leaked-1 stays blocked: every later request is refused.')},
    })
    const blocked = (id: string) => [{level: 'entity_default', entity: id, resource: null, until: null}]
    expect(await cli.tell('entity delete leaked-1 --yes')).toMatchObject({blocked: blocked('leaked-1')})
    expect(await cli.tell('entity delete leaked-2 --block --dry-run')).toMatchObject({blocked: blocked('leaked-2')})
    expect((await cli.run('acquire leaked-2 chat rpm=1')).code).toBe(0)
    expect(await cli.tell('entity delete leaked-2 --block --yes')).toMatchObject({blocked: blocked('leaked-2')})
    for (const id of ['leaked-1', 'leaked-2']) expect((await cli.run(`acquire ${id} chat rpm=1`)).code).toBe(6)
    expect(await cli.fail('entity delete leaked-1 --yes')).toMatchObject({code: 3, error: {code: 'entity.deleted'}})
    expect(await cli.fail('entity delete nobody --block --yes')).toMatchObject({code: 3})
    expect(await cli.fail('limits get --entity nobody')).toMatchObject({code: 3})

    expect(await cli.show('entity show leaked-1', 200)).toMatch(
      /^Entity "leaked-1" was deleted at 2026-01-01T00:00:00Z and is blocked\. To lift the block: zael entity enable leaked-1\n/,
    )
    expect(await cli.tell('entity show leaked-1')).toMatchObject({registered: false, deletedAt: expect.any(String)})
    expect((await cli.run('entity list --prefix leaked')).stderr).toBe(
      'Deleted, but still blocked: leaked-1, leaked-2\n',
    )
    for (const all of ['', ' --all']) {
      const listed = JSON.parse((await cli.run(`entity list --filter KED-2 --json${all}`)).stdout)
      expect(schemaProblems('entity list', listed)).toEqual([])
      expect(listed).toMatchObject({entities: [], deleted: [{id: 'leaked-2'}]})
    }
    expect((await cli.run('verify --json')).code).toBe(0)

    for (const command of ['entity create leaked-1', 'entity enable leaked-1', 'entity clear leaked-1'])
      expect(await cli.fail(command)).toMatchObject({
        code: 2,
        error: {
          code: 'confirm.needed',
          message: expect.stringMatching(/^Entity "leaked-1" was deleted at .* This lifts/),
        },
      })
    expect((await cli.run('acquire leaked-1 chat rpm=1')).code).toBe(6)
    expect((await cli.run('entity create leaked-1 --yes')).stdout).toContain('Its block is lifted.')
    expect((await cli.run('acquire leaked-1 chat rpm=1')).code).toBe(0)
    expect(await cli.tell('entity enable leaked-2 --yes')).toMatchObject({access: {before: 'disabled', after: null}})
    expect((await cli.run('acquire leaked-2 chat rpm=1')).code).toBe(0)
    expect(await cli.tell('entity list --prefix leaked')).toMatchObject({entities: [{id: 'leaked-1'}], deleted: []})
  })

  it('delete names the end of a temporary block; --block removes the end and keeps a lasting block as it is', async () => {
    await cli.run('limits set --resource chat rpm=100/min')
    for (const id of ['for-1', 'for-2', 'ever']) await cli.run(`entity create ${id} --parent org`)
    for (const id of ['for-1', 'for-2']) await cli.run(`entity disable ${id} --for 2h --reason 'chargeback 4711'`)
    expect(await cli.fail('entity delete for-1')).toMatchObject({
      error: {
        message: expect.stringMatching(/for-1 stays blocked only until 2026-.* UTC\. Later requests of for-1 are/),
      },
    })
    expect(await cli.tell('entity delete for-1 --yes')).toMatchObject({blocked: [{until: expect.stringMatching(/Z$/)}]})
    expect(await cli.tell('entity delete for-2 --block --yes')).toMatchObject({blocked: [{until: null}]})
    const {id: namespaceId} = await repository.namespace()
    const {configs, audit} = repository.namespaceById(namespaceId)
    const [kept] = await configs.ofEntity('for-2')
    expect(kept).toMatchObject({access: 'disabled', accessReason: 'chargeback 4711'})
    expect(kept?.accessUntilMs).toBeUndefined()

    await cli.run(`entity disable ever --reason 'leaked'`)
    await cli.run('entity delete ever --block --yes')
    expect(await configs.ofEntity('ever')).toMatchObject([{access: 'disabled', accessReason: 'leaked'}])
    const {records} = await audit.list({entity: 'ever', action: 'limits_set'})
    expect(records).toHaveLength(1)
  })
})

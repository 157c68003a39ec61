import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {engineProxy} from './engine-proxy.js'
import {tableCli} from './table-cli.js'
import {zael} from './zael.js'

describeOnEngine('zael entity import', () => {
  const cli = tableCli(useTable())
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    await cli.tell('namespace create default')
    await cli.tell('limits set --resource gpt-4 rpm=10 tpm=1k')
  })

  afterAll(() => rm(folder, {recursive: true}))

  const file = async (name: string, ...lines: string[]) => {
    const path = join(folder, name)
    await writeFile(path, `${lines.join('\n')}\n`)
    return path
  }

  it('previews, creates, then finds no changes; asks before it changes existing entities', async () => {
    const path = await file(
      'customers.csv',
      'id,name,parent,cascade,metadata.plan,limits.gpt-4',
      'acme,Acme Inc.,,,gold,rpm=50',
      'ann,,acme,yes,,',
    )
    expect(await cli.tell(`entity import ${path} --dry-run`)).toMatchObject({create: 2, limits: 1, result: null})
    expect((await cli.tell('entity list')).entities).toEqual([])
    const {stdout} = await cli.run(`entity import ${path}`)
    expect(stdout.replaceAll(folder, '')).toBe(
      '/customers.csv: 2 entities; 2 to create, 0 to update, 1 set of limits to write (one per entity and resource), 0 entities unchanged\n' +
        'tpm copied from resource gpt-4 for 1 entity; copies do not follow later changes\n' +
        'Created 2, updated 0, wrote 1 set of limits (one per entity and resource)\n',
    )
    expect(await cli.tell(`entity import ${path}`)).toMatchObject({unchanged: 2, result: {created: 0, left: 0}})
    const changed = await file('more.csv', 'id,name', 'acme,Acme Ltd.')
    expect(await cli.fail(`entity import ${changed}`)).toMatchObject({
      code: 2,
      error: {code: 'confirm.needed', message: 'This changes 1 entity. This needs confirmation.'},
    })
    expect((await cli.run(`entity import ${changed} --yes`)).stdout).toContain('~ acme: name Acme Inc. → Acme Ltd.\n')
    expect(await cli.tell('entity list --parent acme')).toMatchObject({entities: [{id: 'ann', cascade: true}]})
    expect(await cli.tell('entity list -m plan=gold')).toMatchObject({entities: [{id: 'acme', name: 'Acme Ltd.'}]})
    expect(await cli.fail('entity list --parent nobody')).toMatchObject({code: 3})
    expect((await cli.run('limits export --output csv')).stdout).toBe(
      'level,entity,resource,limit,value,capacity,refill-amount,refill-period-seconds,boosted-to,boosted-until,unit\n' +
        'resource,,gpt-4,rpm,10/min,10,10,60,,,\n' +
        'resource,,gpt-4,tpm,1k/min,1000,1000,60,,,\n' +
        'entity,acme,gpt-4,rpm,50/min,50,50,60,,,\n' +
        'entity,acme,gpt-4,tpm,1k/min,1000,1000,60,,,\n',
    )
  })

  it('says once which unlisted limits are copied, and from where', async () => {
    const rows = ['copy-1,,rpm=50', 'copy-2,,rpm=60', 'copy-3,rpm=7 tpd=9/day,rpm=8', 'copy-4,,rpm=1 tpm=2']
    const path = await file('copies.csv', 'id,limits,limits.gpt-4', ...rows)
    expect((await cli.run(`entity import ${path} --dry-run`)).stdout).toContain(
      '\ntpm copied from resource gpt-4 for 2 entities; copies do not follow later changes\n' +
        "tpd copied from the entity's default for 1 entity; copies do not follow later changes\n",
    )
    const scope = (entity: string) => ({level: 'entity', entity, resource: 'gpt-4'})
    expect((await cli.tell(`entity import ${path} --yes`)).copied).toEqual([
      {scope: scope('copy-1'), from: {level: 'resource', entity: null, resource: 'gpt-4'}, limits: ['tpm']},
      {scope: scope('copy-2'), from: {level: 'resource', entity: null, resource: 'gpt-4'}, limits: ['tpm']},
      {scope: scope('copy-3'), from: {level: 'entity_default', entity: 'copy-3', resource: null}, limits: ['tpd']},
    ])
    expect((await cli.tell('limits get --entity copy-3 --resource gpt-4')).limits).toMatchObject([
      {name: 'rpm', capacity: 8},
      {name: 'tpd'},
    ])
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    'is stopped by %s with %i, says how far it came, and is continued by the next run',
    async (signal, code) => {
      const count = 40
      const ids = Array.from({length: count}, (_, at) => `${signal}-${at}`)
      const path = await file(`${signal}.csv`, 'id', ...ids)
      let writes = 0
      await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
        if (operation === 'TransactWriteItems' && ++writes === count / 4) process.emit(signal)
        return 'answered'
      })
      const flags = ['--stack', cli.flags[1] ?? '', '--endpoint-url', proxy.endpoint]
      const stopped = await zael(['entity', 'import', path, ...flags])
      expect(stopped.code).toBe(code)
      const [, made, left] =
        /Stopped after (\d+) of 40 changes. 0 failed, (\d+) not tried. Run the command again/.exec(stopped.stdout) ?? []
      expect(Number(made) + Number(left)).toBe(count)
      expect(Number(left)).toBeGreaterThan(0)
      writes = count
      const rest = await cli.tell(`entity import ${path}`)
      expect(rest).toMatchObject({create: Number(left), result: {outcome: 'complete', created: Number(left), left: 0}})
    },
  )

  it("asks before the rest of a boost's copy becomes permanent", async () => {
    await cli.tell('limits set --entity boosted --resource gpt-4 rpm=20 --for 1h')
    const path = await file('boosted.csv', 'id,limits.gpt-4', 'boosted,rpm=15')
    const kept = [{scope: {level: 'entity', entity: 'boosted', resource: 'gpt-4'}, limits: [{text: 'tpm=1k/min'}]}]
    expect(await cli.tell(`entity import ${path} --dry-run`)).toMatchObject({kept, result: null})
    const refused = await cli.fail(`entity import ${path}`)
    expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(refused.error.message).toContain('makes 1 temporary copy of limits permanent')
    const shown = await cli.show(`entity import ${path} --yes`, 200)
    expect(shown).toContain('Temporary copies of limits that are now permanent: limits of 1 entity and resource\n')
    expect(shown).toContain('  ! entity boosted for gpt-4: tpm=1k/min\n')
    const again = await file('again.csv', 'id,limits.gpt-4', 'boosted,rpm=16')
    expect(await cli.tell(`entity import ${again} --yes`)).toMatchObject({kept: [], result: {kept: []}})
  })

  describe('of limits of existing customers', () => {
    const confirmed = async (path: string) => {
      const refused = await cli.fail(`entity import ${path}`)
      expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
      return refused.error.message
    }

    it.each([
      ['inherited limits of a customer without a record', 'acquire INHERITS gpt-4 rpm=1 tpm=1', 'rpm 10/min → 5/min'],
      ['inherited limits of a customer with a record', 'entity create INHERITS', 'rpm 10/min → 5/min'],
      ['its own limits', 'limits set --entity INHERITS --resource gpt-4 rpm=7', 'rpm 7/min → 5/min'],
    ])('shows old and new values and asks before it lowers %s', async (title, prepare, shown) => {
      const id = `low-${title.length}`
      expect((await cli.run(prepare.replace('INHERITS', id))).code).toBe(0)
      const path = await file('lower.csv', 'id,limits.gpt-4', `${id},rpm=5`, `new-${id},rpm=1`)
      const dry = await cli.show(`entity import ${path} --dry-run`, 200)
      expect(dry).toContain(`\nChanged limits of existing entities: 1\n  ~ entity ${id} for gpt-4: ${shown}\n`)
      const scope = {level: 'entity', entity: id, resource: 'gpt-4'}
      expect((await cli.tell(`entity import ${path} --dry-run`)).changed).toMatchObject([
        {scope, changes: [{name: 'rpm', after: {text: 'rpm=5/min'}}], mayRefuseMore: true},
      ])
      const question = await confirmed(path)
      expect(question).toContain('may refuse more requests of 1 entity')
      expect(question).toBe(`${dry.split('\nNeeds confirmation: ')[1]?.trim()}. This needs confirmation.`)
      expect(await cli.tell(`entity import ${path} --yes`)).toMatchObject({result: {limitsSet: 2}})
      expect((await cli.tell(`entity import ${path}`)).changed).toEqual([])
    })

    it('asks before it changes the kind of a limit, and says until when a lowered quota refuses', async () => {
      await cli.tell('limits set --resource batch rpd=100/day@UTC tpm=1k')
      expect((await cli.run('acquire busy batch rpd=40 tpm=1')).code).toBe(0)
      const kind = await file('kind.csv', 'id,limits.batch', 'busy,rpd=100/min')
      expect(await confirmed(kind)).toContain(
        'changes the kind of rpd of entity busy for batch from a calendar quota (100/day@UTC) to a rate (100/min)',
      )
      const quota = await file('quota.csv', 'id,limits.batch', 'busy,rpd=30/day@UTC')
      expect(await cli.show(`entity import ${quota} --dry-run`, 200)).toMatch(
        /Quotas of live buckets: 1 changed, 1 has nothing left\n {2}rpd of busy for batch: 40 used, left 60 → -10, requests are refused until \d{4}-\d\d-\d\d 00:00 UTC\n/,
      )
      expect((await cli.tell(`entity import ${quota} --dry-run`)).quotas).toMatchObject([
        {used: 40, left: {before: 60, after: -10}, refusedUntil: expect.any(String)},
      ])
    })

    it('lists some changes, those that may refuse more first, and shows raised limits', async () => {
      const ids = Array.from({length: 12}, (_, at) => `many-${at}`)
      for (const id of ids) await cli.tell(`entity create ${id}`)
      const lines = ids.map((id, at) => `${id},rpm=${at === 11 ? 5 : 50}`)
      const shown = await cli.show(
        `entity import ${await file('many.csv', 'id,limits.gpt-4', ...lines)} --dry-run`,
        200,
      )
      expect(shown).toContain('existing entities: 12\n  ~ entity many-11 for gpt-4: rpm 10/min → 5/min\n')
      expect(shown).toContain('  ~ entity many-8 for gpt-4: rpm 10/min → 50/min\n  and 2 more\n')
    })

    it('does not ask about new customers, or when inherited limits are only raised', async () => {
      await cli.tell('entity create raised')
      const path = await file('fresh.csv', 'id,limits.gpt-4', 'fresh-1,rpm=1', 'fresh-2,rpm=2/day@UTC', 'raised,rpm=99')
      expect(await cli.tell(`entity import ${path}`)).toMatchObject({
        changed: [{scope: {entity: 'raised'}, mayRefuseMore: false}],
        result: {created: 2, limitsSet: 3},
      })
    })
  })

  it('asks before limits for every resource alter those of a live bucket', async () => {
    await cli.tell('limits set --system rpm=5 tpm=100')
    expect((await cli.run('acquire wide gpt-4 rpm=1 tpm=1')).code).toBe(0)
    const path = await file('wide.csv', 'id,limits', 'wide,rpm=50')
    const refused = await cli.fail(`entity import ${path}`)
    expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(refused.error.message).toContain('wide for gpt-4: rpm 10/min → 50/min, tpm 1k/min → 100/min')
    expect(await cli.tell(`entity import ${path} --yes`)).toMatchObject({
      altered: [
        {resource: 'gpt-4', name: 'rpm'},
        {resource: 'gpt-4', name: 'tpm', buckets: 1},
      ],
      result: {limitsSet: 1},
    })
  })

  it('refuses an entity that is too large for the table, before it writes', async () => {
    const path = await file('large.csv', 'id,metadata.note', 'small,x', `large,${'x'.repeat(420 * 1024)}`)
    for (const flag of [' --dry-run', ''])
      expect(await cli.fail(`entity import ${path}${flag}`)).toMatchObject({
        code: 2,
        error: {code: 'import.too-large', details: {entities: [{entity: 'large'}]}},
      })
    expect(await cli.fail('entity show small')).toMatchObject({code: 3})
    // Of a change, the audit event has the values of before and after.
    await cli.tell(`entity import ${await file('first.csv', 'id,metadata.note', `large,${'x'.repeat(220 * 1024)}`)}`)
    const second = await file('second.csv', 'id,metadata.note', `large,${'y'.repeat(220 * 1024)}`)
    expect(await cli.fail(`entity import ${second} --dry-run`)).toMatchObject({error: {code: 'import.too-large'}})
  })

  it('reads JSON Lines, and refuses invalid input', async () => {
    const lines = await file('users.jsonl', '{"id": "bob", "metadata": {"seats": 3}}')
    expect(await cli.tell(`entity import ${lines}`)).toMatchObject({result: {created: 1}})
    const broken = await file('broken.csv', 'id,limits', 'x,rpm=fast', 'y,')
    expect(await cli.fail(`entity import ${broken}`)).toMatchObject({
      code: 2,
      error: {code: 'import.invalid', details: {problems: [{line: 2, path: 'limits.rpm'}]}},
    })
    expect(await cli.fail('entity show y')).toMatchObject({code: 3})
    expect(await cli.fail(`entity import ${await file('list.txt', 'id')}`)).toMatchObject({
      code: 2,
      error: {code: 'import.format'},
    })
    expect(await cli.fail('entity import nowhere.csv')).toMatchObject({code: 3, error: {code: 'import.file'}})
  })
})

import {beforeAll, expect, it} from 'vitest'
import {batchWrite} from '../../src/lib/dynamo/batch.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newTenant} from '../repository/namespace-table.js'
import {populate} from './populate.js'
import {tableCli} from './table-cli.js'

/** Around the hours that are there. */
const DAY = '--since 2026-11-01 --until 2026-11-02'

describeOnEngine('zael usage', () => {
  const table = useTable()
  const cli = tableCli(table)

  let namespace: string

  beforeAll(async () => {
    namespace = await populate(table)
  })

  it('show prints windows with a bar against the limit, totals, and the meaning of 100 %', async () => {
    expect(await cli.show(`usage show user-1 ${DAY}`, 80)).toMatchInlineSnapshot(`
      "Hourly usage of user-1, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)
      START             RESOURCE  LIMIT     USED   BUDGET  SHARE              REQUESTS
      2026-11-01 10:00  search    rpm          5    3,600   <1 %  ░░░░░░░░░░         5
      2026-11-01 10:00  gpt-4     rpm         60    6,000    1 %  ░░░░░░░░░░        60
      2026-11-01 10:00  gpt-4     tpm    612,345  600,000  102 %  ██████████        60
      2026-11-01 08:00  gpt-4     rpm         30    6,000   <1 %  ░░░░░░░░░░        30
      2026-11-01 08:00  gpt-4     tpm    300,000  600,000   50 %  █████░░░░░        30

      Total: 95 requests
        gpt-4: rpm 90, tpm 912,345
        search: rpm 5
      100 % is the amount that a rate allows per hour (or its burst, if larger), or the whole allowance of a quota.
      "
    `)
    expect(await cli.show(`usage show --resource gpt-4 ${DAY}`, 120)).toMatchInlineSnapshot(`
      "Hourly usage of gpt-4, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)
      START             ENTITY  LIMIT     USED   BUDGET  SHARE              REQUESTS
      2026-11-01 10:00  user-2  rpm         10    6,000   <1 %  ░░░░░░░░░░        10
      2026-11-01 10:00  user-2  tpm      1,000  600,000   <1 %  ░░░░░░░░░░        10
      2026-11-01 10:00  user-1  rpm         60    6,000    1 %  ░░░░░░░░░░        60
      2026-11-01 10:00  user-1  tpm    612,345  600,000  102 %  ██████████        60
      2026-11-01 08:00  user-1  rpm         30    6,000   <1 %  ░░░░░░░░░░        30
      2026-11-01 08:00  user-1  tpm    300,000  600,000   50 %  █████░░░░░        30

      Total: 100 requests
        gpt-4: rpm 100, tpm 913,345
      Up to 10 requests and their tokens count twice if an entity changed its parent in this time.
      100 % is the amount that a rate allows per hour (or its burst, if larger), or the whole allowance of a quota.
      "
    `)
  })

  it('show --json matches its schema and pages', async () => {
    const first = await cli.tell(`usage show --resource gpt-4 ${DAY} --limit 2`)
    const second = await cli.tell(`usage show --resource gpt-4 ${DAY} --limit 2 --cursor ${first.next}`)
    expect(first).toMatchObject({window: 'hourly', since: '2026-11-01T00:00:00.000Z', entity: null, resource: 'gpt-4'})
    expect(second.next).toBeNull()
    const starts = [...first.windows, ...second.windows].map(({entity, start}) => `${start} ${entity}`)
    expect(starts).toEqual([
      '2026-11-01T10:00:00Z user-2',
      '2026-11-01T10:00:00Z user-1',
      '2026-11-01T08:00:00Z user-1',
    ])
    const nothingElse = {overdrawn: 0, refused: {requests: 0, tokens: 0}}
    expect(second.windows[0].limits).toEqual([
      {name: 'rpm', tokens: 30, budget: 6000, share: 0.005, ...nothingElse},
      {name: 'tpm', tokens: 300_000, budget: 600_000, share: 0.5, ...nothingElse},
    ])
    expect(second.totals).toMatchObject([
      {name: 'rpm', tokens: 30},
      {name: 'tpm', tokens: 300_000, windows: 1},
    ])
  })

  it('show names a missing entity or resource, and refuses bad input', async () => {
    expect(await cli.fail('usage show user-l')).toMatchObject({code: 3, error: {code: 'entity.missing'}})
    expect(await cli.fail('usage show --resource gtp-4')).toMatchObject({
      code: 3,
      error: {code: 'resource.missing', hint: 'Did you mean "gpt-4"?'},
    })
    expect(await cli.fail('usage show')).toMatchObject({code: 2, error: {code: 'usage.subject'}})
    expect(await cli.fail('usage show user-1 --since 24x')).toMatchObject({code: 2, error: {code: 'time.syntax'}})
    expect(await cli.tell(`usage show idle ${DAY}`)).toMatchObject({windows: [], totals: [], next: null})
  })

  it.each([
    'usage show user-1',
    'usage summary user-1',
    'usage top',
    'usage top --by refused --output csv',
    'bucket show user-1',
  ])('%s prints nothing but the error for an unknown column', async command => {
    const {code, stdout, stderr} = await cli.run(`${command} --columns nope`)
    expect({code, stdout}).toEqual({code: 2, stdout: ''})
    expect(stderr).toContain('"nope"')
  })

  it('summary adds up per resource', async () => {
    expect(await cli.show(`usage summary user-1 ${DAY}`, 80)).toMatchInlineSnapshot(`
      "Hourly usage of user-1, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)
      RESOURCE  LIMIT   TOKENS  WINDOWS    AVERAGE     PEAK  PEAK AT
      gpt-4     rpm         90        2         45       60  2026-11-01 10:00
      gpt-4     tpm    912,345        2  456,172.5  612,345  2026-11-01 10:00
      search    rpm          5        1          5        5  2026-11-01 10:00

      Total: 95 requests in 3 windows
      "
    `)
    expect(await cli.tell(`usage summary --resource gpt-4 ${DAY}`)).toMatchObject({
      requests: 100,
      windows: 3,
      complete: true,
      totals: [
        {name: 'rpm', tokens: 100, windows: 3, peak: {entity: 'user-1', tokens: 60}},
        {name: 'tpm', tokens: 913_345},
      ],
    })
    expect(await cli.fail('usage summary nobody')).toMatchObject({code: 3})
    expect(await cli.fail('usage summary user-1 --until 2026-13-01')).toMatchObject({
      code: 2,
      error: {message: expect.stringContaining('month 13 does not exist')},
    })
  })

  it('show and summary give a range if an entity and its parent may have refused the same requests', async () => {
    await cli.run('entity create org')
    await cli.run('entity create member --parent org --cascade')
    const record = (entity: string, requests: number, byParent: number) => ({
      ...{namespace, entity, resource: 'family', window: 'hourly' as const, start: '2026-11-01T10:00:00Z'},
      ...{tokens: new Map([['rpm', 9]]), totalEvents: 9, ttlSeconds: undefined},
      refused: {requests, byParent, lastAtMs: 0, limits: new Map([['rpm', {requests, tokens: BigInt(requests)}]])},
    })
    const puts = [record('org', 30 + 7, 0), record('member', 5 + 7, 30)].map(each => ({put: encodeUsage(each)}))
    await batchWrite(table.transport, table.name, puts, {backoff: newTenant(table).backoff})
    const subject = '--resource family --since 2026-11-01T00:00 --until 2026-11-02T00:00'
    for (const command of ['show', 'summary']) {
      expect(await cli.tell(`usage ${command} ${subject}`)).toMatchObject({requests: 9, refusedTwice: 7})
      const {stdout} = await cli.run(`usage ${command} ${subject}`)
      expect(stdout).toMatch(/Total: 9 requests.*, 42 to 49 refused, including 30 by the parent only/)
      expect(stdout).toContain('Up to 7 refused requests exceeded limits of both an entity and its parent.')
    }
    expect(await cli.tell(`usage show member ${subject}`)).toMatchObject({refusedTwice: 0})
  })

  it('top ranks consumers of a resource and of the namespace', async () => {
    expect(await cli.show(`usage top ${DAY}`, 80)).toMatchInlineSnapshot(`
      "Hourly usage, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)
      ENTITY  RESOURCE  SHARE OF REQUESTS              REQUESTS  TOKENS
      user-1  gpt-4                  86 %  █████████░        90  rpm 90, tpm 912,345
      user-2  gpt-4                  10 %  █░░░░░░░░░        10  rpm 10, tpm 1,000
      user-1  search                  5 %  ░░░░░░░░░░         5  rpm 5

      3 of 3 consumers (resources: gpt-4, search)
      Up to 10 requests and their tokens count twice if an entity changed its parent in this time.
      "
    `)
    expect(await cli.show(`usage top --resource gpt-4 --by tpm --limit 1 ${DAY}`, 120)).toMatchInlineSnapshot(`
      "Hourly usage of gpt-4, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)
      ENTITY  SHARE OF TPM              REQUESTS  TOKENS
      user-1         >99 %  ██████████        90  rpm 90, tpm 912,345

      1 of 2 consumers
      Up to 10 requests and their tokens count twice if an entity changed its parent in this time.
      "
    `)
    const top = await cli.tell(`usage top ${DAY}`)
    expect(top.resources).toEqual(['gpt-4', 'search'])
    expect(top.consumers.map(({entity}: {entity: string}) => entity)).toEqual(['user-1', 'user-2', 'user-1'])
    expect(await cli.fail('usage top --resource nothing')).toMatchObject({code: 3, error: {code: 'resource.missing'}})
    expect(await cli.fail(`usage top --by tps ${DAY}`)).toMatchObject({
      code: 2,
      error: {code: 'usage.by', hint: expect.stringContaining('Use requests, refused, or one of rpm, tpm.')},
    })
  })

  it('top ranks the members of a parent, and parents only', async () => {
    expect(await cli.show(`usage top team-1 ${DAY}`, 80)).toMatchInlineSnapshot(`
      "Hourly usage of the members of team-1, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)
      ENTITY  RESOURCE  SHARE OF REQUESTS              REQUESTS  TOKENS
      user-1  gpt-4                  95 %  █████████░        90  rpm 90, tpm 912,345
      user-1  search                  5 %  █░░░░░░░░░         5  rpm 5

      2 of 2 consumers among the members of team-1
      Charged to team-1 in this time: nothing; its limits refused 0 requests
      "
    `)
    expect(await cli.tell(`usage top team-1 ${DAY}`)).toMatchObject({
      by: 'requests',
      parent: {entity: 'team-1', requests: 0, others: {requests: 0, limits: []}},
      consumers: [{entity: 'user-1', resource: 'gpt-4'}, {entity: 'user-1'}],
    })
    expect(await cli.show(`usage top --by parent ${DAY}`, 80)).toMatchInlineSnapshot(`
      "Hourly usage, 2026-11-01 00:00 to 2026-11-02 00:00 (times are UTC)
      No parent of another consumer has recorded usage for that time.
      "
    `)
    expect(await cli.fail(`usage top user-2 ${DAY}`)).toMatchObject({code: 3, error: {code: 'usage.members'}})
  })

  it('top puts every consumer into files, and says what --limit leaves out', async () => {
    const {backoff} = newTenant(table)
    const entities = Array.from({length: 24}, (_, at) => `many-${String(at).padStart(2, '0')}`)
    const puts = entities.map((entity, at) => ({
      put: encodeUsage({
        namespace,
        entity,
        resource: 'many',
        window: 'hourly',
        start: '2026-11-01T10:00:00Z',
        tokens: new Map([['rpm', 24 - at]]),
        totalEvents: 24 - at,
        ttlSeconds: undefined,
      }),
    }))
    await batchWrite(table.transport, table.name, puts, {backoff})
    const top = `usage top --resource many ${DAY}`
    const csv = await cli.run(`${top} --output csv`)
    expect(
      csv.stdout
        .trimEnd()
        .split('\n')
        .slice(1)
        .map(row => row.split(',')[0]),
    ).toEqual(entities)
    expect(csv.stderr).toBe('')
    expect((await cli.run(`${top} --output jsonl`)).stdout.trimEnd().split('\n')).toHaveLength(24)
    const all = await cli.tell(top)
    expect(all.consumers).toHaveLength(24)
    expect(all).toMatchObject({total: 24, complete: true, by: 'requests', resource: 'many', resources: ['many']})
    expect(all.consumers[0]).toMatchObject({entity: 'many-00', resource: 'many', requests: 24})
    // A table shows the ten largest, and says so.
    expect(await cli.show(top, 80)).toMatch(/many-09 .*\n\n10 of 24 consumers\n$/)
    const some = await cli.tell(`${top} --limit 2`)
    expect(some).toMatchObject({total: 24, complete: false, consumers: [{entity: 'many-00'}, {entity: 'many-01'}]})
    for (const output of ['csv --no-header', 'jsonl']) {
      const {stdout, stderr} = await cli.run(`${top} --limit 2 --output ${output}`)
      expect(stdout.trimEnd().split('\n')).toHaveLength(2)
      expect(stderr).toBe('Printed 2 of 24 consumers. Without --limit, all are printed.\n')
    }
  })

  it('export prints every limit of every window with stable columns, and ignores a preferred table', async () => {
    const october = '--since 2026-10-01 --until 2026-11-01'
    const usage = (entity: string, resource: string, day: number, tokens: Record<string, number>) =>
      encodeUsage({
        namespace,
        entity,
        resource,
        window: 'daily',
        start: `2026-10-${String(day).padStart(2, '0')}T00:00:00Z`,
        tokens: new Map(Object.entries(tokens)),
        totalEvents: 2,
        refused: {
          requests: 5,
          byParent: 1,
          blocked: 2,
          lastAtMs: 0,
          limits: new Map([['usd', {requests: 3, tokens: 4_500_000n}]]),
        },
        ttlSeconds: undefined,
      })
    const days = Array.from({length: 31}, (_, at) => usage('user-1', 'paid', at + 1, {rpm: 2, usd: -1_250_000}))
    // More than a page of the index.
    const many = Array.from({length: 300}, (_, at) => usage(`customer-${at}`, 'paid', 5, {usd: 1}))
    const odd = usage('=1+1,"x"', 'paid', 5, {usd: 5_000_000})
    const puts = [...days, ...many, odd].map(put => ({put}))
    await batchWrite(table.transport, table.name, puts, {backoff: newTenant(table).backoff})
    await cli.run("limits set --resource paid 'usd=$20/month@UTC' --yes")

    const csv = await cli.run(`usage export ${october}`, {ZAEL_OUTPUT: 'table'})
    expect(csv.stderr).toBe('')
    const [header, ...rows] = csv.stdout.trimEnd().split('\n')
    expect(header).toBe(
      'namespace,entity,parent,resource,window,start,open,requests,requests-refused,requests-refused-by-parent,' +
        'limit,unit,consumed,amount,overdrawn,refused,refused-tokens,refused-amount,requests-blocked,' +
        'requests-refused-by-provider,kind',
    )
    expect(rows).toHaveLength(31 * 2 + many.length + 1)
    const day = 'default,user-1,team-1,paid,daily,2026-10-31T00:00:00Z,false,2,5,1'
    expect(rows.filter(row => row.includes(',user-1,')).slice(0, 2)).toEqual([
      `${day},rpm,,2,,0,0,0,,2,0,own`,
      `${day},usd,USD,-1250000,-1.25,0,3,4500000,4.50,2,0,own`,
    ])
    // A formula stays text.
    expect(rows[0]).toMatch(/^default,"'=1\+1,""x""",,paid,daily,.*,USD,5000000,5,0,3,/)

    const lines = (await cli.run(`usage export ${october} --output jsonl`)).stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(rows.length)
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({entity: '=1+1,"x"', unit: 'USD', amount: '5', open: false})
    const whole = await cli.tell(`usage export ${october}`)
    expect(whole.rows).toHaveLength(rows.length)
    expect(whole).toMatchObject({window: 'daily', since: '2026-10-01T00:00:00.000Z', until: '2026-11-01T00:00:00.000Z'})
    expect(whole.next).toBeNull()
  })

  it('export says which time it covers, which rows can change, and that there are none', async () => {
    const part = await cli.run('usage export --window hourly --since 2026-11-01T09:30 --until 2026-11-01T10:30')
    expect(part.stderr).toBe(
      'Windows are exported whole: the rows cover 2026-11-01T09:00:00.000Z to 2026-11-01T11:00:00.000Z.\n',
    )
    const starts = part.stdout
      .trimEnd()
      .split('\n')
      .slice(1)
      .map(row => row.split(',')[5])
    expect(new Set(starts)).toEqual(new Set(['2026-11-01T10:00:00Z']))
    for (const id of ['team-7', 'team-8']) await cli.run(`entity create ${id}`)
    await cli.run('entity create mover --parent team-7')
    await cli.run('entity update mover --parent team-8 --yes')
    expect((await cli.run('usage export --since 2026-10-01 --until 2026-11-01')).stderr).toMatch(
      /changed their parent since the first row: mover from team-7 to team-8 \(20.* UTC\)\. The column "parent"/,
    )
    await cli.run('entity delete mover --yes')
    expect((await cli.run('usage export --since 2026-10-01 --until 2026-11-01')).stderr).toMatch(
      /\nEntities deleted since the first row: mover \(20.* UTC\)\. Their usage before that is deleted and not in the rows; /,
    )
    const none = await cli.run('usage export --since 2020-01-01 --until 2020-02-01')
    expect([none.stdout.split('\n').length, none.stderr]).toEqual([2, expect.stringContaining('No usage is recorded')])
    const start = `${new Date().toISOString().slice(0, 13)}:00:00Z`
    const now = {
      ...{namespace, entity: 'now', resource: 'gpt-4', window: 'hourly' as const, start},
      ...{tokens: new Map([['rpm', 1]]), totalEvents: 1, ttlSeconds: undefined},
    } as const
    await batchWrite(table.transport, table.name, [{put: encodeUsage(now)}], {backoff: newTenant(table).backoff})
    const {stdout, stderr} = await cli.run('usage export --window hourly --since 1m --output jsonl')
    expect(stderr).toContain('Warning: 1 row belongs to windows that are still open. Their figures can change.')
    expect(JSON.parse(stdout)).toMatchObject({entity: 'now', open: true})
  })

  it('export refuses bad input', async () => {
    const refused = async (flags: string) => {
      const {code, error} = await cli.fail(`usage export ${flags}`)
      return [code, error.code]
    }
    expect(await refused('--since 2026-11-02 --until 2026-11-01')).toEqual([2, 'time.range'])
    expect(await refused('--since 2026-13-01')).toEqual([2, 'time.syntax'])
    expect(await refused('--columns nothing')).toEqual([2, 'list.column'])
    expect((await cli.run('usage export --output table')).code).toBe(2)
    expect((await cli.run('usage export --window weekly')).code).toBe(2)
    expect((await cli.fail('usage export --namespace nowhere')).code).toBe(3)
  })

  it('show and summary compare a quota with its allowance, and say how long it lasts', async () => {
    await cli.run("limits set --resource billed 'usd=$20/month@UTC' --yes")
    const month = {
      ...{namespace, entity: 'payer', resource: 'billed', start: '2026-10-01T00:00:00Z'},
      ...{tokens: new Map([['usd', 15_000_000]]), totalEvents: 3, ttlSeconds: undefined},
    }
    const put = encodeUsage({...month, window: 'monthly'})
    await batchWrite(table.transport, table.name, [{put}], {backoff: newTenant(table).backoff})
    await cli.run("acquire payer billed 'usd=$12'")
    const asked = 'payer --window monthly --since 2026-10-01 --until 2026-11-01'
    const text = await cli.show(`usage show ${asked}`, 80)
    expect(text).toMatch(/^2026-10 +billed +usd +\$15 +\$20 +75 % /m)
    expect(text).toContain('Quota usd of billed now: $12 of $20 used (60 %), $8 left\n  resets in ')
    expect(text).toContain('\n  at the average rate since ')
    const budget = {
      resource: 'billed',
      name: 'usd',
      allowance: 20_000_000,
      used: 12_000_000,
      left: 8_000_000,
      share: 0.6,
    }
    const shown = await cli.tell(`usage show ${asked}`)
    expect(shown.windows[0].limits).toMatchObject([{name: 'usd', budget: 20_000_000, share: 0.75}])
    expect(shown.budgets).toMatchObject([budget])
    expect((await cli.tell(`usage summary ${asked}`)).budgets).toMatchObject([budget])
    expect(await cli.show(`usage summary ${asked}`, 80)).toContain('$12 of $20 used (60 %), $8 left')
  })
})

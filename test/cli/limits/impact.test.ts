import {expect, it} from 'vitest'
import {windowStart} from '../../../src/lib/core/window.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant, put} from '../../repository/namespace-table.js'

const RANGE = '--since 2026-11-02 --until 2026-11-03'

describeOnEngine('zael limits impact', () => {
  const table = useTable()
  const cli = tableCli(table)
  const last = async (command: string) => (await cli.show(`${command} ${RANGE}`, 300)).trimEnd().split('\n')

  it('shows the findings, or why there are none, and unknown names', async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    const {id} = (await repository.namespaces.register('default')).namespace
    await cli.run('limits set --resource gpt-4 rpm=1000')
    await cli.run('limits set --resource video rpm=1000')
    await cli.run('limits set --entity own --resource video rpm=9000')
    const tenant = {...newTenant(table), namespace: id}
    const start = '2026-11-02T05:00:00Z'
    for (const [entity, resource] of [
      ['large', 'gpt-4'],
      ['own', 'video'],
    ] as const) {
      const counted = {tokens: new Map([['rpm', 9000]]), totalEvents: 9000, ttlSeconds: undefined}
      await put(tenant, encodeUsage({namespace: id, entity, resource, window: 'hourly', start, ...counted}))
    }
    const time = 'from 2026-11-02 00:00 to 2026-11-03 00:00 (UTC)'
    expect(await last('limits impact --resource gpt-4 rpm=100')).toContain(
      `Replayed 1 hourly window of 1 entity, ${time}.`,
    )
    expect(await last('limits impact --resource gtp-4 rpm=100')).toEqual([
      'No recorded usage to compare with these limits.',
      '',
      `No usage is recorded ${time} where these limits would apply. Check that the aggregator runs: zael status`,
      'Unknown names: resource gtp-4 (did you mean gpt-4?)',
    ])
    expect(await last('limits impact --resource video rpm=100')).toContain(
      `1 entity has usage ${time}, but more specific limits apply to all of them.`,
    )
    expect(await last('limits impact --resource gpt-4 rpm=1000')).toContain(
      `Nothing would change for 1 entity with usage ${time}.`,
    )
    expect(await last('limits impact --resource gpt-4 rmp=5')).toEqual([
      'No recorded usage to compare with these limits.',
      '',
      `No usage is recorded for rmp, so it cannot be compared. zael searched the usage of 1 entity, ${time}.`,
      'Unknown names: limit rmp (did you mean rpm?)',
    ])
    const slots = 'parallel is an in-flight limit: usage does not record concurrency, so it cannot be compared.'
    expect(await last('limits impact --resource gpt-4 parallel=20/inflight')).toEqual([
      'No recorded usage to compare with these limits.',
      '',
      slots,
      'Unknown names: limit parallel',
    ])
    expect((await last('limits impact --resource gpt-4 rpm=100 parallel=20/inflight')).slice(-4)).toEqual([
      expect.stringMatching(/^Replayed/),
      expect.stringMatching(/refused/),
      slots,
      'Unknown names: limit parallel',
    ])
    expect(await cli.tell(`limits impact --resource gpt-4 parallel=20/inflight ${RANGE}`)).toMatchObject({
      changed: [],
      inFlight: ['parallel'],
    })
    expect(await last('limits impact --resource gpt-4 rpm=100 rmp=5')).toContain(
      'No usage is recorded for rmp, so it cannot be compared.',
    )
    expect(await cli.tell(`limits impact --resource gtp-4 rmp=5 ${RANGE}`)).toMatchObject({
      entities: 0,
      others: 0,
      windows: 0,
      found: [],
      new: [
        {kind: 'resource', name: 'gtp-4', nearest: ['gpt-4']},
        {kind: 'limit', name: 'rmp', nearest: ['rpm']},
      ],
    })
    // Another period is no misspelling.
    expect(await last('limits impact --resource gpt-4 rpd=5')).toContain('Unknown names: limit rpd')
    const bursts = await last('limits impact --resource gpt-4 rpm=500')
    expect(bursts.join('\n')).toMatch(/^in bursts +large +gpt-4 +rpm=500\/min /m)
    expect(bursts).toContain(
      '  1 in bursts  used at most half of the allowance of an hour: refused only in bursts above twice their average',
    )
    await cli.run('limits set --entity large --resource gpt-4 rpm=5000 --for 1h')
    expect(await last('limits impact --resource gpt-4 rpm=100')).toContain(
      '1 listed entity has a temporary limit now. The result applies after it expires (`zael limits boosts`).',
    )
    const {found} = await cli.tell(`limits impact --resource gpt-4 rpm=100 ${RANGE}`)
    expect(Date.parse(found[0].boostedUntil)).toBeGreaterThan(Date.now())
  })

  it('counts entities that keep their own limits, and says where the rest of a long list is', async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    const {id} = (await repository.namespaces.register('default')).namespace
    await cli.run('limits set --resource images rpm=1000')
    await cli.run('limits set --entity c1 --resource images rpm=9000')
    const start = windowStart('hourly', Date.now() - 7_200_000)
    for (let at = 1; at <= 13; at++) {
      const counted = {tokens: new Map([['rpm', 9000]]), totalEvents: 9000, ttlSeconds: undefined}
      const record = {namespace: id, entity: `c${at}`, resource: 'images', window: 'hourly', start, ...counted} as const
      await put({...newTenant(table), namespace: id}, encodeUsage(record))
    }
    const fitting = {namespace: id, entity: 'c14', resource: 'images', window: 'hourly', start} as const
    const little = {tokens: new Map([['rpm', 9]]), totalEvents: 9, ttlSeconds: undefined}
    await put({...newTenant(table), namespace: id}, encodeUsage({...fitting, ...little}))
    const {stdout} = await cli.run('limits impact --resource images rpm=100')
    expect(stdout).toContain('Replayed 13 hourly windows of 13 entities')
    expect(stdout).toContain(
      '  12 refused    some requests would have been refused, for certain\n' +
        '   1 fits       all requests would have been admitted\n',
    )
    expect(stdout).toContain('\n1 entity with usage has its own limits for images and keeps them.\n')
    // Bursts above twice the average: most such rows say nothing.
    const rare = await cli.run('limits impact --resource images rpm=500')
    expect(rare.stdout.match(/^in bursts/gm)).toHaveLength(10)
    expect(rare.stdout).toContain('\n… and 2 more in bursts; --output csv lists all\n')
    const sorted = await cli.run('limits impact --resource images rpm=500 --sort entity')
    expect(sorted.stdout.match(/^in bursts/gm)).toHaveLength(12)
    const csv = await cli.run('limits impact --resource images rpm=500 --output csv')
    expect(csv.stdout.match(/^bursts/gm)).toHaveLength(12)
    const seen = await cli.run('limits set --resource images rpm=100 --impact --dry-run')
    expect(seen.stdout).toContain('\n… and 2 more; --json lists all\n')
  })

  it('says that the current hour is compared with the part that has passed', async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    const {id} = (await repository.namespaces.register('default')).namespace
    await cli.run('limits set --resource open rpm=100k')
    // The next one too, in case it begins during this test.
    const starts = [0, 3_600_000].map(ms => windowStart('hourly', Date.now() + ms))
    for (const start of starts) {
      const counted = {tokens: new Map([['rpm', 90_000]]), totalEvents: 90_000, ttlSeconds: undefined}
      const record = {namespace: id, entity: 'new', resource: 'open', window: 'hourly', start, ...counted} as const
      await put({...newTenant(table), namespace: id}, encodeUsage(record))
    }
    const {stdout} = await cli.run('limits impact --resource open rpm=50k')
    expect(stdout).toMatch(
      /^The hour from [-\d]+ \d\d:00 is still open: its usage is compared with the allowance until now\.$/m,
    )
    const {open} = await cli.tell('limits impact --resource open rpm=50k')
    expect(starts).toContain(open.replace('.000Z', 'Z'))
  })
})

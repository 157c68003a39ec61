import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {type NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'

describeOnEngine('limits given as an amount alone', () => {
  const table = useTable()
  const cli = tableCli(table)
  let namespace: NamespaceRepository
  let resources = 0

  beforeAll(async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    for (const name of ['default', 'fresh', 'hiding']) await repository.namespaces.register(name)
    namespace = await repository.namespace('default')
  })

  const resourceWith = async (...limits: string[]): Promise<string> => {
    const resource = `r${++resources}`
    await namespace.setLimits({level: 'resource', resource}, parseLimits(limits))
    return resource
  }
  const textsOf = async (resource: string): Promise<string[]> =>
    (await cli.tell(`limits get --resource ${resource}`)).limits.map(({text}: {text: string}) => text)

  it.each([
    ['usd=$500/month@UTC', 'usd=$600', 'usd=$600/month@UTC', 'usd /month@UTC'],
    ['rpd=10/day@Europe/Berlin', 'rpd=20', 'rpd=20/day@Europe/Berlin', 'rpd /day@Europe/Berlin'],
    ['q=10@"0 9 * * 1-5 Asia/Tokyo"', 'q=2k', 'q=2k@"0 9 * * 1-5 Asia/Tokyo"', 'q @"0 9 * * 1-5 Asia/Tokyo"'],
    ['s=200/5h!', 's=300', 's=300/5hour!', 's /5hour!'],
    ['rpm=100/min:300', 'rpm=200', 'rpm=200/min:600', 'rpm /min, burst scaled to 600'],
    ['rpm=100/min:250', 'rpm=33', 'rpm=33/min:83', 'rpm /min, burst scaled to 83'],
    ['jobs=500/15min', 'jobs=400:800', 'jobs=400/15min:800', 'jobs /15min'],
    ['rpd=10/day@UTC,soft', 'rpd=20', 'rpd=20/day@UTC,soft', 'rpd /day@UTC, soft'],
    [
      'tpm=100/min,x0.1@"* 22,23 * * * Europe/Berlin"',
      'tpm=200',
      'tpm=200/min,x0.1@"* 22,23 * * * Europe/Berlin"',
      'tpm /min, windows',
    ],
    [
      'tpm=100/min,50@"* 22,23 * * *"',
      'tpm=200',
      'tpm=200/min,50@"* 22,23 * * *"',
      'tpm /min, windows with the same amounts',
    ],
    ['tpm=100/hour,x0.1@"* 22,23 * * *"', 'tpm=200,soft', 'tpm=200/hour,soft', 'tpm /hour'],
  ])('keep everything else of %s when set to %s', async (before, given, after, kept) => {
    const resource = await resourceWith(before)
    const result = await cli.tell(`limits set --resource ${resource} '${given}' --dry-run`)
    const [name, text] = [after.slice(0, after.indexOf('=')), kept.slice(kept.indexOf(' ') + 1)]
    expect(result.kept).toEqual([{limit: name, text}])
    const {code, stdout} = await cli.run(`limits set --resource ${resource} '${given}'`)
    expect([code, stdout.replaceAll(/ +/g, ' ')]).toEqual([0, expect.stringContaining(` kept ${kept}\n`)])
    expect(await textsOf(resource)).toEqual([after])
  })

  it('keep the parameters of the limit that a scope inherits', async () => {
    const resource = await resourceWith('rpd=10/day@UTC', 'rpm=100/min:300')
    await cli.tell(`limits set --entity e1 --resource ${resource} rpd=20`)
    const {limits} = await cli.tell(`limits get --entity e1 --resource ${resource}`)
    expect(limits.map(({text}: {text: string}) => text)).toEqual(['rpd=20/day@UTC', 'rpm=100/min:300'])
  })

  it('keep them in temporary limits, without windows, and in the replay of usage', async () => {
    const resource = await resourceWith('rpd=10/day@UTC,x0.5@"* * * * 6,7"', 'rpm=100/min:300,x0.5@"* * * * 6,7"')
    const {changes} = await cli.tell(`limits set --resource ${resource} rpm=200 --for 2h`)
    const boosts = changes.flatMap(({after}: {after: {boost?: {text: string}}}) => after.boost?.text ?? [])
    expect(boosts).toEqual(['rpm=200/min:600'])
    expect((await cli.tell(`limits impact --resource ${resource} rpd=20`)).kept).toEqual([
      {limit: 'rpd', text: '/day@UTC, windows'},
    ])
  })

  it('are per minute where no such limit applies', async () => {
    const resource = await resourceWith('rpd=10/day@UTC')
    const {kept} = await cli.tell(`limits set --resource ${resource} rpm=20`)
    expect([kept, await textsOf(resource)]).toEqual([[], ['rpd=10/day@UTC', 'rpm=20/min']])
  })

  it.each([
    ['rpd=10/day@UTC', 'rpd=20/min', 'from a calendar quota (10/day@UTC) to a rate (20/min)', 'and refill'],
    ['x=10/min', 'x=20/day@UTC', 'from a rate (10/min) to a calendar quota (20/day@UTC)', 'until the next reset'],
    [
      'x=10/day@UTC',
      'x=20/5h!',
      'from a calendar quota (10/day@UTC) to a session quota (20/5hour!)',
      'whole allowance',
    ],
    ['x=10/5hour!', 'x=20:40', 'from a session quota (10/5hour!) to a rate (20/min:40)', 'and refill'],
  ])('ask before %s becomes %s', async (before, given, change, balances) => {
    const resource = await resourceWith(before)
    const refused = await cli.fail(`limits set --resource ${resource} '${given}'`)
    expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(refused.error.message).toContain(`changes ${before.slice(0, before.indexOf('='))} ${change}`)
    expect(refused.error.message).toContain(balances)
    const dry = `limits set --resource ${resource} '${given}' --dry-run`
    const {confirmation} = await cli.tell(dry)
    expect(refused.error.message).toBe(`${confirmation}. This needs confirmation.`)
    expect(await cli.show(dry, 300)).toContain(`\nNeeds confirmation: ${confirmation}\n`)
    expect(await textsOf(resource)).toEqual([before])
    expect((await cli.run(`limits set --resource ${resource} '${given}' --yes`)).code).toBe(0)
  })

  it('ask before the default of an entity hides a limit of another kind', async () => {
    await cli.tell('limits set --resource gpt-4 rpd=10/day@UTC -n hiding')
    const {error} = await cli.fail('limits set --entity e1 rpd=20 -n hiding')
    expect(error.message).toContain('changes rpd for gpt-4 from a calendar quota (10/day@UTC) to a rate (20/min)')
  })

  it.each([
    ['usd=500/month@UTC', 'usd=500/month@UTC has no currency, so it limits 500 tokens, not money'],
    ['cost_eur=5/min', 'cost_eur=5/min has no currency'],
    ['usd=$5', "usd=$5 has no period, so it limits $5 per minute. For a month: 'usd=$5/month@UTC'"],
  ])('ask before %s is set for the first time', async (given, question) => {
    const {code, error} = await cli.fail(`limits set --resource money -n fresh '${given}'`)
    expect([code, error.code]).toEqual([2, 'confirm.needed'])
    expect(`${error.message} ${error.hint}`).toContain(question)
    if (!given.includes('$')) expect(error.hint).toContain('single quotes')
  })

  it('ask before a number is read in the currency of the limit', async () => {
    const resource = await resourceWith('usd=$500/month@UTC')
    const {error} = await cli.fail(`limits set --resource ${resource} usd=600`)
    expect(error.message).toContain('usd=600 has no currency and is read as $600')
    expect(error.hint).toContain('single quotes')
    await cli.tell(`limits set --resource ${resource} usd=600 --yes`)
    expect(await textsOf(resource)).toEqual(['usd=$600/month@UTC'])
    const complete = await cli.fail(`limits set --resource ${resource} usd=600/month@UTC`)
    expect(complete.error.code).toBe('limit.unit')
    expect(complete.error.hint).toContain('single quotes')
  })

  it('do not ask again once the limit counts tokens', async () => {
    await cli.tell('limits set --resource m eur=500/day@UTC --yes -n fresh')
    expect((await cli.run('limits set --resource m eur=600 -n fresh')).code).toBe(0)
    expect((await cli.run('limits set --resource m eur=700/day@UTC -n fresh')).code).toBe(0)
  })

  it('mean a rate per minute in files, and ask before the kind changes', async () => {
    const resource = await resourceWith('rpd=10/day@UTC')
    const folder = await mkdtemp(join(tmpdir(), 'zael-kind-'))
    try {
      const manifest = join(folder, 'limits.yaml')
      await writeFile(manifest, `namespace: default\nresources:\n  ${resource}: {limits: {rpd: 20}}\n`)
      const changed = `rpd of resource ${resource} from a calendar quota (10/day@UTC) to a rate (20/min)`
      const planned = await cli.run(`limits plan -f ${manifest}`)
      expect(planned.stdout).toContain(`Changes the kind of ${changed}`)
      const applied = await cli.fail(`limits apply -f ${manifest}`)
      expect(applied.error.message).toContain(`changes the kind of ${changed}`)

      await namespace.setLimits({level: 'entity', entity: 'e9', resource}, parseLimits(['rpd=10/day@UTC']))
      const list = join(folder, 'list.csv')
      await writeFile(list, `id,limits.${resource}\ne9,rpd=20\n`)
      const imported = await cli.fail(`entity import ${list}`)
      expect(imported.error.message).toContain(`changes the kind of rpd of entity e9`)
      for (const entity of ['e7', 'e8'])
        await namespace.setLimits({level: 'entity', entity, resource}, parseLimits(['rpd=10/day@UTC']))
      await writeFile(list, `id,limits.${resource}\ne7,rpd=20\ne8,rpd=20\ne9,rpd=20\n`)
      expect((await cli.fail(`entity import ${list}`)).error.message).toContain(
        `changes the kind of rpd of entity e7 for ${resource} and 2 other scopes from a calendar quota (10/day@UTC) to a rate (20/min)`,
      )
    } finally {
      await rm(folder, {recursive: true})
    }
  })
})

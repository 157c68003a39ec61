import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {type NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import {tableCli} from '../../e2e/table-cli.js'
import {zael} from '../../e2e/zael.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'

describeOnEngine('live limits that a change alters without naming them', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)
  let folder = ''
  let spaces = 0

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-altered-'))
  })
  afterAll(async () => {
    await rm(folder, {recursive: true})
  })

  /** The system has rpm and tpm, gpt-4 more of both, mini a quota of its own; acme uses gpt-4 and whisper. */
  const open = async (): Promise<{name: string; tenant: NamespaceRepository}> => {
    const name = `altered-${++spaces}`
    await repository.namespaces.register(name)
    const tenant = await repository.namespace(name)
    await tenant.setLimits({level: 'system'}, parseLimits(['rpm=100/min', 'tpm=10k/min']))
    await tenant.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=100/min', 'tpm=90k/min']))
    await tenant.setLimits({level: 'resource', resource: 'mini'}, parseLimits(['tpm=10k/min', 'rpd=5/day']), {
      replace: true,
    })
    const connection = {stack: table.name, transport: table.transport, timeoutMs: PATIENT_MS}
    const limiter = new RateLimiter({...connection, namespace: name})
    for (const resource of ['gpt-4', 'whisper'])
      await limiter.acquire({entity: 'acme', resource, consume: {rpm: 1, tpm: 5}})
    await limiter.close()
    return {name, tenant}
  }
  const capacityOf = async (tenant: NamespaceRepository, resource: string, limit: string) => {
    const bucket = await tenant.bucket({entity: 'acme', resource})
    return bucket?.limits.find(({name}) => name === limit)?.capacity
  }
  const alteredIn = (result: {altered: unknown[]}) =>
    (result.altered as Record<'resource' | 'name' | 'before' | 'after' | 'buckets', never>[]).map(
      ({resource, name, before, after, buckets}) => [resource, name, textOf(before), textOf(after), buckets],
    )
  const textOf = (limit: {text: string} | null) => limit?.text ?? null

  it.each(['', ' --for 1h'])(
    'lists them, asks, and suggests the one resource when limits are set for every resource%s',
    async end => {
      const {name, tenant} = await open()
      const command = `limits set --entity acme rpm=500${end} -n ${name}`
      const refused = await cli.fail(command)
      expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
      expect(refused.error.message).toContain('also changes tpm for gpt-4 from 90k/min to 10k/min (1 live bucket)')
      expect(refused.error.hint).toContain(
        `zael limits set --entity acme --resource gpt-4 rpm=500${end} --stack ${table.name} --namespace ${name}`,
      )
      expect(await tenant.configs.ofEntity('acme')).toEqual([])

      const expected = [
        ['gpt-4', 'tpm', 'tpm=90k/min', 'tpm=10k/min', 1],
        ['mini', 'rpd', 'rpd=5/day', null, 0],
        ['mini', 'rpm', null, 'rpm=500/min', 0],
      ]
      const dry = await cli.tell(`${command} --dry-run`)
      expect(alteredIn(dry)).toEqual(expected)
      expect(await capacityOf(tenant, 'gpt-4', 'tpm')).toBe(90_000)
      const result = await cli.tell(`${command} --yes`)
      expect(alteredIn(result)).toEqual(expected)
      expect(await capacityOf(tenant, 'gpt-4', 'tpm')).toBe(10_000)
    },
  )

  it('shows live buckets first, with the command that changes only the named limits', async () => {
    const {name} = await open()
    const shown = await cli.show(`limits set --entity acme rpm=500 --dry-run -n ${name}`, 200)
    expect(shown).toContain(
      'also changes  tpm for gpt-4 from 90k/min to 10k/min (1 live bucket); rpd for mini from 5/day to (none); rpm for mini from (none) to 500/min\n',
    )
    expect(shown).toContain(
      `To change only the named limits: zael limits set --entity acme --resource gpt-4 rpm=500 --stack ${table.name}`,
    )
  })

  it('lists who is affected before it asks', async () => {
    const {name, tenant} = await open()
    const {code, stdout, stderr} = await cli.run(`limits set --entity acme rpm=500 -n ${name}`)
    expect(stdout).toMatch(/^Limits of entity acme for every resource \(nothing written yet\)\n/)
    expect(stdout).toMatch(/\n {2}affects +1 entity with 2 live buckets\n/)
    expect([code, stderr]).toEqual([2, expect.stringContaining('This needs confirmation.')])
    expect(await tenant.configs.ofEntity('acme')).toEqual([])
    const {stdout: made} = await cli.run(`limits set --entity acme rpm=500 -n ${name} --yes`)
    expect(made).toMatch(/^Limits of entity acme for every resource\n/)
  })

  it('includes a named limit if another value was in force', async () => {
    const {name, tenant} = await open()
    await tenant.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=1k/min', 'tpm=10k/min']))
    const refused = await cli.fail(`limits set --entity acme rpm=500 -n ${name}`)
    expect(refused.error.message).toContain('also changes rpm for gpt-4 from 1k/min to 500/min (1 live bucket)')
  })

  it('does not ask if the entity has its own limits for the resource', async () => {
    const {name, tenant} = await open()
    await tenant.setLimits({level: 'entity', entity: 'acme', resource: 'gpt-4'}, parseLimits(['tpm=90k/min']))
    const result = await cli.tell(`limits set --entity acme rpm=500 -n ${name}`)
    expect(alteredIn(result).map(([resource]) => resource)).toEqual(['mini', 'mini'])
  })

  it('asks before removing the last limit adds or changes others', async () => {
    const {name, tenant} = await open()
    await tenant.setLimits({level: 'entity', entity: 'acme', resource: 'gpt-4'}, parseLimits(['rpm=500/min']), {
      replace: true,
    })
    const command = `limits unset rpm --entity acme --resource gpt-4 -n ${name}`
    const refused = await cli.fail(command)
    expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(refused.error.message).toContain('also changes tpm for gpt-4 from (none) to 90k/min (1 live bucket)')
    expect(alteredIn(await cli.tell(`${command} --yes`))).toEqual([['gpt-4', 'tpm', null, 'tpm=90k/min', 1]])

    const own = {level: 'entity', entity: 'acme', resource: '_default_'} as const
    await tenant.setLimits(own, parseLimits(['rpm=500/min', 'tpm=10k/min']))
    const all = await cli.fail(`limits unset --all --entity acme -n ${name}`)
    expect(all.error.message).toContain('tpm for gpt-4 from 10k/min to 90k/min (1 live bucket)')
    expect(all.error.message).toContain('rpm for whisper from 500/min to 100/min (1 live bucket)')
  })

  it('asks before a manifest creates or deletes limits that cover others', async () => {
    const {name, tenant} = await open()
    const file = join(folder, `${name}.yaml`)
    const state = (...lines: string[]) => writeFile(file, [`namespace: ${name}`, ...lines, ''].join('\n'))
    await state('entities: {acme: {limits: {rpm: 500/min, tpm: 10k/min}}}')
    const [gpt4] = alteredIn(await cli.tell(`limits plan -f ${file}`))
    expect(gpt4).toEqual(['gpt-4', 'tpm', 'tpm=90k/min', 'tpm=10k/min', 1])
    const refused = await cli.fail(`limits apply -f ${file}`)
    expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(refused.error.message).toContain('also changes acme for gpt-4: tpm 90k/min → 10k/min')
    expect(await tenant.configs.ofEntity('acme')).toEqual([])
    await cli.tell(`limits apply -f ${file} --yes`)

    await state('entities: {}')
    expect(await cli.show(`limits plan -f ${file}`, 200)).toContain(
      [
        'Also changes: 2 live buckets',
        '  acme for gpt-4: rpm 500/min → 100/min, tpm 10k/min → 90k/min',
        '  acme for whisper: rpm 500/min → 100/min\n',
      ].join('\n'),
    )
  })

  it('names every entity of a manifest, the first ten in lines that fit the terminal, all in JSON', async () => {
    const {name} = await open()
    const ids = Array.from({length: 12}, (_, at) => `customer-number-${String(at).padStart(2, '0')}`)
    const connection = {stack: table.name, transport: table.transport, timeoutMs: PATIENT_MS}
    const limiter = new RateLimiter({...connection, namespace: name})
    await Promise.all(ids.map(entity => limiter.acquire({entity, resource: 'gpt-4', consume: {rpm: 1, tpm: 5}})))
    await limiter.close()
    const file = join(folder, `${name}.yaml`)
    const entities = ids.map(id => `  ${id}: {limits: {rpm: 500/min, tpm: 10k/min}}`)
    await writeFile(file, [`namespace: ${name}`, 'entities:', ...entities, ''].join('\n'))

    const words = ['limits', 'plan', '-f', file, ...cli.flags]
    const {stdout} = await zael(words, {env: {NO_COLOR: '1'}, columns: 50})
    const [, shown = ''] = /\n(Also changes: .*)/s.exec(stdout) ?? []
    expect(shown.split('\n').slice(0, 3)).toEqual([
      'Also changes: 12 live buckets',
      '  customer-number-00 for gpt-4: tpm 90k/min →',
      '      10k/min',
    ])
    expect(shown).toContain('  and 2 more; --json lists all')
    expect(Math.max(...shown.split('\n').map(line => line.length))).toBeLessThanOrEqual(50)

    const {altered} = await cli.tell(`limits plan -f ${file}`)
    expect(altered.map(({entityIds}: {entityIds: string[]}) => entityIds.toSorted())).toEqual([ids])
    const {error} = await cli.fail(`limits apply -f ${file}`)
    expect(error.message).toContain('also changes 12 live buckets, such as customer-number-00 for gpt-4: tpm 90k/min')
  })

  it('omits unchanged limits, and limits that change as named', async () => {
    const {name} = await open()
    for (const command of [
      'limits set --entity acme --resource gpt-4 rpm=500',
      'limits set --entity acme --resource gpt-4 rpm=600 --for 1h',
      'limits set --resource gpt-4 tpm=95k',
      'limits set --system rpm=5',
    ])
      expect([command, alteredIn(await cli.tell(`${command} -n ${name}`))]).toEqual([command, []])
  })
})

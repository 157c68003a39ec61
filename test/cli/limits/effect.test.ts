import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {type NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import type {ConfigScope} from '../../../src/lib/schema/config-record.js'
import {engineProxy} from '../../e2e/engine-proxy.js'
import {tableCli} from '../../e2e/table-cli.js'
import {zael} from '../../e2e/zael.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'

const batch: ConfigScope = {level: 'resource', resource: 'batch'}
const own: ConfigScope = {level: 'entity', entity: 'cust-08', resource: 'batch'}
const OWN = '--entity cust-08 --resource batch'

describeOnEngine('the effect of a change of limits', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)
  let folder = ''
  let spaces = 0

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-effect-'))
  })
  afterAll(async () => {
    await rm(folder, {recursive: true})
  })

  /** A namespace in which resource batch has rpm and tpd, and some customers are charged for both. */
  const open = async (...customers: string[]): Promise<{name: string; tenant: NamespaceRepository}> => {
    const name = `effect-${++spaces}`
    await repository.namespaces.register(name)
    const tenant = await repository.namespace(name)
    await tenant.setLimits(batch, parseLimits(['rpm=100/min', 'tpd=200k/day']))
    const connection = {stack: table.name, transport: table.transport, timeoutMs: PATIENT_MS}
    const limiter = new RateLimiter({...connection, namespace: name})
    for (const entity of customers) await limiter.acquire({entity, resource: 'batch', consume: {rpm: 1, tpd: 5}})
    await limiter.close()
    return {name, tenant}
  }
  const textsAt = async (tenant: NamespaceRepository, scope: ConfigScope) =>
    (await tenant.configs.get(scope))?.limits.map(({name, capacity}) => `${name}=${capacity}`)

  it('keeps the other limits of a customer when one is raised, says so, and does not ask', async () => {
    const {name, tenant} = await open('cust-08', 'cust-09')
    const dry = await cli.tell(`limits set ${OWN} tpd=400k/day --dry-run -n ${name}`)
    expect(await tenant.configs.get(own)).toBeUndefined()
    const output = await cli.tell(`limits set ${OWN} tpd=400k/day -n ${name}`)
    expect(dry).toEqual({...output, dryRun: true, buckets: null})
    const of = {level: 'resource', entity: null, resource: 'batch'}
    expect(output).toMatchObject({
      changes: [
        {name: 'rpm', before: null},
        {name: 'tpd', before: null, after: {text: 'tpd=400k/day'}},
      ],
      copied: {scope: of, limits: [{text: 'rpm=100/min'}]},
      effective: {
        before: {scope: of, limits: [{text: 'rpm=100/min'}, {text: 'tpd=200k/day'}]},
        after: {scope: {level: 'entity'}, limits: [{text: 'rpm=100/min'}, {text: 'tpd=400k/day'}]},
      },
      hides: [{scope: of}],
      uncovers: [],
      concerned: {entities: 1, buckets: 1, complete: true},
      lost: {limits: [], buckets: 0, unconfigured: 0},
      new: [],
      buckets: {checked: 1, updated: 1, failed: 0},
    })
  })

  it('shows the same to people, with the command that removes the copy', async () => {
    const {name} = await open('cust-08')
    const shown = await cli.show(`limits set ${OWN} tpd=400k/day --dry-run -n ${name}`, 200)
    const flags = `--stack ${table.name} --namespace ${name}`
    expect(shown.split('\n').slice(0, 5)).toEqual([
      'Limits of entity cust-08 for batch (dry run, nothing written)',
      '  rpm      100/min, unchanged, copied from resource batch',
      '  tpd      200k/day → 400k/day',
      '  hides    resource batch: rpm=100/min tpd=200k/day',
      '  affects  1 entity with 1 live bucket',
    ])
    expect(shown).toContain(`and follow it again: zael limits unset --all ${OWN} ${flags}`)
  })

  it.each([
    ['set --only', `limits set ${OWN} tpd=400k/day --only`, 'rpm from 1 live bucket'],
    ['unset of one limit', 'limits unset rpm --resource batch', 'rpm from 1 live bucket'],
    ['unset of everything', 'limits unset --all --resource batch', 'left without limits: requests fail'],
    ['set for every resource', 'limits set --entity cust-08 xpm=1/min', 'rpm and tpd from 1 live bucket'],
  ])('asks before %s removes a limit that live buckets are charged for', async (_, command, why) => {
    const {name, tenant} = await open('cust-08')
    const before = [await textsAt(tenant, batch), await tenant.configs.ofEntity('cust-08')]
    const refused = await cli.fail(`${command} -n ${name}`)
    expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(refused.error.message).toContain(why)
    const asked = await cli.run(`${command} -n ${name}`)
    expect(asked.stdout).toMatch(/^Limits of .* \(nothing written yet\)\n {2}/)
    expect([await textsAt(tenant, batch), await tenant.configs.ofEntity('cust-08')]).toEqual(before)
    const output = await cli.tell(`${command} --yes -n ${name}`)
    expect(output.lost.buckets + output.lost.unconfigured).toBeGreaterThan(0)
  })

  it('does not ask when no live bucket is charged for the removed limit', async () => {
    const {name} = await open()
    await cli.tell(`limits set ${OWN} tpd=400k/day --only -n ${name}`)
    await cli.tell(`limits unset rpm --resource batch -n ${name}`)
    const output = await cli.tell(`limits unset tpd ${OWN} -n ${name}`)
    expect(output).toMatchObject({
      uncovers: [{limits: [{text: 'tpd=200k/day'}]}],
      effective: {after: {scope: {level: 'resource'}}},
    })
  })

  it("names the resource limits that an entity's limits for every resource hide", async () => {
    const {name} = await open()
    const output = await cli.tell(`limits set --entity cust-08 rpm=5/min -n ${name}`)
    expect(output).toMatchObject({copied: null, hides: [{scope: {level: 'resource', resource: 'batch'}}]})
  })

  it('counts affected entities of a resource, without those that have their own limits', async () => {
    const {name} = await open('cust-08', 'cust-09', 'cust-10')
    await cli.tell(`limits set ${OWN} tpd=400k/day -n ${name}`)
    const output = await cli.tell(`limits set --resource batch rpm=200/min -n ${name}`)
    expect(output.concerned).toEqual({entities: 2, buckets: 2, others: 1, complete: true})
    expect(output.hides).toEqual([])
    expect(await cli.show(`limits set --resource batch rpm=300/min -n ${name}`, 200)).toContain(
      '\n1 entity with live buckets has its own limits for batch and keeps them.\n',
    )
    expect(await cli.show(`limits set --system rpm=300/min -n ${name}`, 200)).toContain(
      '\n3 entities with live buckets have more specific limits and keep them.\n',
    )
    expect(await cli.show(`limits set ${OWN} rpm=300/min -n ${name}`, 200)).not.toContain('own limits')
  })

  it('marks unknown names as new, with the nearest existing ones', async () => {
    const {name, tenant} = await open('cust-08')
    await tenant.entities.create({id: 'cust-08'})
    const output = await cli.tell(`limits set --entity cust-8 --resource bacth tpx=1/day --dry-run -n ${name}`)
    expect(output.new).toEqual([
      {kind: 'entity', name: 'cust-8', nearest: ['cust-08']},
      {kind: 'resource', name: 'bacth', nearest: ['batch']},
      {kind: 'limit', name: 'tpx', nearest: ['tpd']},
    ])
    const known = await cli.tell(`limits set ${OWN} rpm=1/min --dry-run -n ${name}`)
    expect(known.new).toEqual([])
  })

  it('asks before a manifest updates limits or removes them from live buckets, not before it adds', async () => {
    const {name, tenant} = await open('cust-08')
    const file = join(folder, `${name}.yaml`)
    const state = (...lines: string[]) => writeFile(file, [`namespace: ${name}`, ...lines, ''].join('\n'))
    const limits = '{limits: {rpm: 100/min, tpd: 200k/day}}'
    await state(`resources: {batch: ${limits}}`, `entities: {cust-09: {resources: {batch: {limits: {tpd: 1/day}}}}}`)
    await cli.tell(`limits apply -f ${file}`)

    await state(`resources: {batch: ${limits}}`, `entities: {cust-08: {resources: {batch: {limits: {tpd: 400k/day}}}}}`)
    const planned = await cli.tell(`limits plan -f ${file}`)
    expect(planned.lost).toEqual({limits: ['rpm'], buckets: 1, unconfigured: 0, complete: true})
    const refused = await cli.fail(`limits apply -f ${file}`)
    expect(refused).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(refused.error.message).toContain('removes limits: rpm from 1 live bucket')
    expect(await tenant.configs.get(own)).toBeUndefined()

    await state('resources: {batch: {limits: {rpm: 7/min, tpd: 200k/day}}}')
    expect((await cli.fail(`limits apply -f ${file}`)).error.message).toContain('updates 1 scope or record')
    expect(await textsAt(tenant, batch)).toEqual(['rpm=100', 'tpd=200000'])
    expect((await cli.tell(`limits apply -f ${file} --yes`)).result).toMatchObject({outcome: 'complete', updated: 1})
  })

  describe('of a lowered quota', () => {
    const until = (days: number) => `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10)} 00:00 UTC`

    /** Customers of resource batch that have used so much of 100/day@UTC. */
    const used = async (...amounts: number[]) => {
      const {name, tenant} = await open()
      await tenant.setLimits(batch, parseLimits(['rpd=100/day@UTC']))
      const connection = {stack: table.name, transport: table.transport, timeoutMs: PATIENT_MS}
      await using limiter = new RateLimiter({...connection, namespace: name})
      for (const [at, rpd] of amounts.entries())
        await limiter.acquire({entity: `busy-${String(at).padStart(2, '0')}`, resource: 'batch', consume: {rpd}})
      return {name, tenant}
    }

    it('asks before live buckets lose all that is left, and changes nothing without an answer', async () => {
      const {name, tenant} = await used(10, 60, 80, 100)
      const question = `2 of 4 live buckets have nothing left and are refused until ${until(1)}`
      const refused = await cli.fail(`limits set -r batch rpd=50 -n ${name}`)
      expect([refused.code, refused.error.message]).toEqual([2, `${question}. This needs confirmation.`])
      expect(await textsAt(tenant, batch)).toContain('rpd=100')
      const dry = await cli.show(`limits set -r batch rpd=50 --dry-run -n ${name}`, 200)
      expect(dry).toContain(`\nNeeds confirmation: ${question}\n`)
      expect(await cli.tell(`limits set -r batch rpd=50 --yes -n ${name}`)).toMatchObject({confirmation: question})
      expect(await textsAt(tenant, batch)).toContain('rpd=50')
    })

    it.each(['rpd=81', "'rpd=50/day@UTC,soft'", 'rpd=200'])('does not ask before %s', async limit => {
      const {name} = await used(10, 80, 100)
      expect(await cli.tell(`limits set -r batch ${limit} -n ${name}`)).toMatchObject({confirmation: null})
    })

    it('says so before a manifest is applied', async () => {
      const {name} = await used(60)
      const file = join(folder, `${name}.yaml`)
      await writeFile(file, `namespace: ${name}\nresources: {batch: {limits: {rpd: 50/day@UTC}}}\n`)
      const refused = await cli.fail(`limits apply -f ${file}`)
      expect([refused.code, refused.error.message]).toEqual([
        2,
        expect.stringMatching(
          new RegExp(`^This .*\\. 1 of 1 live bucket has nothing left and is refused until ${until(1)}`),
        ),
      ])
    })

    it('counts a bucket once, and names the last of several resets', async () => {
      const {name} = await used(60)
      await cli.tell(`limits set -r batch 'rpk=100@"15 18 * * * UTC"' -n ${name}`)
      const connection = {stack: table.name, transport: table.transport, timeoutMs: PATIENT_MS}
      await using limiter = new RateLimiter({...connection, namespace: name})
      await limiter.acquire({entity: 'busy-00', resource: 'batch', consume: {rpk: 60}})
      await limiter.settled()
      const {confirmation} = await cli.tell(`limits set -r batch rpd=50 rpk=50 --dry-run -n ${name}`)
      expect(confirmation).toMatch(
        /^1 of 1 live bucket has nothing left and is refused until [-\d]+ (00:00|18:15) UTC at the latest$/,
      )
    })

    it('suggests a top-up in the namespace of the manifest if the new allowance must wait for a reset', async () => {
      const {name} = await used(60)
      const file = join(folder, `${name}.yaml`)
      await writeFile(file, `namespace: ${name}\nresources: {batch: {limits: {rpd: 500/month@UTC}}}\n`)
      expect(await cli.show(`limits plan -f ${file}`, 300)).toContain(
        `\nTo add tokens now: zael bucket top-up busy-00 batch rpd=400 --stack ${table.name} --namespace ${name} --endpoint-url`,
      )
    })
  })

  describe('when another operator adds a limit between the question and the change', () => {
    /** The result of a command during which the resource gets a limit before the first write. */
    const overtaken = async (command: string) => {
      const {name, tenant} = await open()
      await using proxy = await engineProxy(inject('engineEndpoint'), async operation => {
        if (operation === 'TransactWriteItems' && !(await textsAt(tenant, batch))?.includes('rpd=5'))
          await tenant.setLimits(batch, parseLimits(['rpd=5/day']))
        return 'answered' as const
      })
      const flags = ['--stack', table.name, '--endpoint-url', proxy.endpoint, '-n', name, '--json']
      const {code, stdout} = await zael([...command.split(' '), '--resource', 'batch', ...flags])
      return {code, output: JSON.parse(stdout), limits: await textsAt(tenant, batch)}
    }

    it.each(['limits set rpm=1/min --only --yes', 'limits unset --all --yes'])(
      '%s does not remove what it has not asked about',
      async command => {
        const {code, output, limits} = await overtaken(command)
        expect([code, output.error.code]).toEqual([5, 'limits.changed'])
        expect(limits).toEqual(['rpd=5', 'rpm=100', 'tpd=200000'])
      },
    )

    it.each(['limits set rpm=1/min', 'limits unset tpd --yes'])('shows the added limit after %s', async command => {
      const {code, output, limits} = await overtaken(command)
      expect([code, output.effective.after.limits.map((each: {name: string}) => each.name)]).toEqual([
        0,
        limits?.map(text => text.split('=')[0]),
      ])
      expect(limits).toContain('rpd=5')
    })
  })

  it('accepts --replace, and says that it is now --only', async () => {
    const {name} = await open()
    const {code, stderr} = await cli.run(`limits set --resource batch rpm=1/min --replace -n ${name}`)
    expect([code, stderr]).toEqual([0, expect.stringContaining('--only')])
  })
})

import {mkdtemp, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {type NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import type {ConfigScope} from '../../../src/lib/schema/config-record.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'
import {totalOf} from '../../repository/namespace-table.js'

const system: ConfigScope = {level: 'system'}
const resource: ConfigScope = {level: 'resource', resource: 'gpt-4'}

describeOnEngine('zael limits', () => {
  const table = useTable()
  const repository = new Repository({stack: table.name, transport: table.transport})
  const cli = tableCli(table)
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-museum-'))
  })

  afterAll(async () => {
    await rm(folder, {recursive: true})
  })

  const spaceCalled = async (name: string): Promise<NamespaceRepository> => {
    await repository.namespaces.register(name)
    return repository.namespace(name)
  }

  /** Makes a live bucket by using it. */
  const use = async (namespace: string, entity: string): Promise<void> => {
    const limiter = new RateLimiter({
      stack: table.name,
      namespace,
      transport: table.transport,
      timeoutMs: PATIENT_MS,
    })
    await (await limiter.acquire({entity, resource: 'gpt-4', consume: {rpd: 1}})).commit()
    await limiter.close()
  }

  const manifest = async (name: string, ...lines: string[]): Promise<string> => {
    const file = join(folder, `${name}.yaml`)
    await writeFile(file, [`namespace: ${name}`, ...lines, ''].join('\n'))
    return file
  }

  /** The reference's command deleted the configuration and left live buckets with the old limits. */
  it('C-22: removes limits from live buckets too', async () => {
    const tenant = await spaceCalled('c-22')
    await tenant.setLimits(resource, [parseLimit('rpd=10/day')])
    await tenant.setLimits({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, [parseLimit('rpd=100/day')])
    await use('c-22', 'user-1')
    const output = await cli.tell('limits unset --all --yes --entity user-1 --resource gpt-4 -n c-22')
    expect(output.buckets).toEqual({checked: 1, updated: 1, failed: 0})
    const bucket = await tenant.buckets.find('user-1', 'gpt-4')
    expect(totalOf(bucket, 'rpd', 'capacityMilli')).toBe(10)
    expect(totalOf(bucket, 'rpd')).toBe(10)
  })

  /** The reference could resolve limits and had no command that says which apply and why. */
  it('C-29: shows with limits resolve which limits apply, and why', async () => {
    const tenant = await spaceCalled('c-29')
    await tenant.setLimits(system, [parseLimit('rpd=1/day')])
    await tenant.setLimits({level: 'entity', entity: 'user-1', resource: '_default_'}, [parseLimit('rpd=5/day')])
    const output = await cli.tell('limits resolve user-1 gpt-4 -n c-29')
    expect(output).toMatchObject({source: 'entity_default', limits: [{text: 'rpd=5/day'}]})
    expect(output.levels).toMatchObject([
      {level: 'entity', limits: [], applies: false},
      {level: 'entity_default', limits: [{text: 'rpd=5/day'}], applies: true},
      {level: 'resource', limits: [], applies: false},
      {level: 'system', limits: [{text: 'rpd=1/day'}], applies: false},
    ])
  })

  /** In the reference a set replaced everything, and without `--on-unavailable` it cleared the policy. */
  it('C-38: merges with limits set, and keeps the outage policy unless it is given', async () => {
    const tenant = await spaceCalled('c-38')
    await cli.tell('limits set --system rpd=1/day tpd=2/day --on-unavailable allow -n c-38')
    const policy = async () => (await tenant.configs.get(system))?.onUnavailable
    await cli.tell('limits set --system rpd=3/day -n c-38')
    expect((await tenant.configs.get(system))?.limits.map(({name}) => name)).toEqual(['rpd', 'tpd'])
    expect(await policy()).toBe('allow')
    await cli.tell('limits set --system rpd=3/day --only -n c-38')
    expect(await policy()).toBe('allow')
    await cli.tell('limits unset rpd --system -n c-38')
    expect(await policy()).toBe('allow')
    await cli.tell('limits set --system --on-unavailable block -n c-38')
    expect(await policy()).toBe('block')
  })

  /** The reference echoed the flag without storing it, and never read the value that its library stored. */
  it('C-9: stores and shows audit retention, and applies it to new events', async () => {
    const tenant = await spaceCalled('c-9')
    const days = async () => {
      await cli.tell(`entity create e-${Math.random().toString(36).slice(2)} -n c-9`)
      const [{timestamp = '', ttlSeconds = 0} = {}] = (await tenant.audit.listAll()).records
      return (ttlSeconds - Date.parse(timestamp) / 1000) / 86_400
    }
    expect(await days()).toBe(90)
    const output = await cli.tell('limits set --system --audit-retention-days 7 -n c-9')
    expect(output.auditRetentionDays).toEqual({before: null, after: 7})
    expect(await days()).toBe(7)
    await cli.tell('limits set --system rpd=1/day -n c-9')
    expect(await days()).toBe(7)
  })

  /** In the reference every change of the system's limits wrote the item anew, without the retention. */
  it('D-30: keeps audit retention when the system limits change', async () => {
    const tenant = await spaceCalled('d-30')
    await tenant.configs.set(system, [], {auditRetentionDays: 365})
    const file = await manifest('d-30', 'system: {limits: {rpd: 5/day}}')
    for (const command of [
      'limits set --system rpd=1/day tpd=1/day -n d-30',
      'limits set --system rpd=2/day --only -n d-30',
      `limits apply -f ${file} --yes`,
      'limits unset rpd --system -n d-30',
      'limits set --system rpd=2/day --on-unavailable allow -n d-30',
      'limits unset --all --yes --system -n d-30',
    ]) {
      await cli.tell(command)
      expect((await tenant.configs.get(system))?.auditRetentionDays).toBe(365)
    }
  })

  /** The reference's declarative tool wrote limits that were not listed, audited or applied to live buckets. */
  it('D-44: lists, audits and applies limits from a manifest like any others', async () => {
    const tenant = await spaceCalled('d-44')
    await tenant.setLimits(system, [parseLimit('rpd=100/day')])
    await use('d-44', 'user-1')
    const limits = 'limits: {rpd: 5/day}'
    const file = await manifest(
      'd-44',
      `resources: {gpt-4: {${limits}}}`,
      `entities: {user-1: {resources: {gpt-4: {${limits}}}}}`,
    )
    const output = await cli.tell(`limits apply -f ${file}`)
    expect(output.result).toMatchObject({outcome: 'complete', created: 2})
    const {configs} = await cli.tell('limits list -n d-44')
    expect(configs.map(({level}: {level: string}) => level)).toEqual(['system', 'resource', 'entity'])
    expect(totalOf(await tenant.buckets.find('user-1', 'gpt-4'), 'rpd', 'capacityMilli')).toBe(5)
    const {events} = await cli.tell('audit list user-1 -n d-44')
    expect(events).toMatchObject([{action: 'limits_set', resource: 'gpt-4'}])
  })

  describe('in a manifest', () => {
    /** In the reference whatever was managed was reported as an update, for ever. */
    it('M-2: finds no changes in an unchanged manifest', async () => {
      await spaceCalled('m-2')
      const file = await manifest('m-2', 'resources: {gpt-4: {limits: {rpd: 5/day}}}')
      await cli.tell(`limits apply -f ${file}`)
      expect(await cli.tell(`limits plan -f ${file}`)).toMatchObject({changes: [], counts: {unchanged: 1}})
      expect((await cli.tell(`limits apply -f ${file}`)).result).toMatchObject({created: 0, updated: 0, deleted: 0})
      expect(await cli.show(`limits plan -f ${file}`, 80)).toMatch(/^No changes in /)
    })

    /** In the reference `diff` never looked at live items: edits by hand were invisible, a clean state showed as drift. */
    it('M-3: reports as drift exactly the differences in the table', async () => {
      const tenant = await spaceCalled('m-3')
      const file = await manifest('m-3', 'resources: {gpt-4: {limits: {rpd: 5/day}}}')
      await cli.tell(`limits apply -f ${file}`)
      expect(await cli.run(`limits diff -f ${file}`)).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^No drift/),
      })
      // Neither in the manifest nor managed.
      await tenant.setLimits({level: 'entity', entity: 'ada', resource: 'gpt-4'}, [parseLimit('rpd=9/day')])
      expect(await cli.run(`limits diff -f ${file}`)).toMatchObject({
        code: 0,
        stdout: 'No drift in namespace m-3\n1 scope in the table is not in the manifest\n',
      })
      expect(await cli.tell(`limits diff -f ${file}`)).toMatchObject({drift: false, unlisted: 1})
      await tenant.setLimits(resource, [parseLimit('rpd=6/day')])
      const drift = await cli.run(`limits diff -f ${file}`)
      expect(drift).toMatchObject({code: 6, stdout: expect.stringContaining('rpd 6/day → 5/day')})
      await tenant.deleteLimits(resource)
      expect(await cli.run(`limits diff -f ${file}`)).toMatchObject({
        code: 6,
        stdout: expect.stringContaining('missing'),
      })
    })

    /** In the reference `-N` was accepted and ignored. */
    it("M-8: refuses a --namespace that differs from the manifest's", async () => {
      await spaceCalled('m-8')
      await spaceCalled('other')
      const file = await manifest('m-8', 'resources: {gpt-4: {limits: {rpd: 5/day}}}')
      for (const command of ['plan', 'apply', 'diff']) {
        const refused = await cli.fail(`limits ${command} -f ${file} --namespace other`)
        expect(refused).toMatchObject({code: 2, error: {code: 'manifest.namespace'}})
      }
      expect(await (await repository.namespace('other')).configs.resources()).toEqual([])
      expect(await cli.tell(`limits apply -f ${file} -n m-8`)).toMatchObject({namespace: 'm-8'})
      // ZAEL_NAMESPACE is only a default: the manifest's namespace wins.
      const elsewhere = await cli.run(`limits plan -f ${file} --json`, {ZAEL_NAMESPACE: 'other'})
      expect(JSON.parse(elsewhere.stdout)).toMatchObject({namespace: 'm-8', changes: []})
    })
  })
})

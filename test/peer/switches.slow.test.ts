import {beforeEach, describe, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {surveyTable} from '../../src/lib/migrate/survey.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {ensureVersion, markAggregator} from '../../src/lib/repository/table/version.js'
import {AGGREGATOR_MARK} from '../../src/lib/repository/table/version-compatibility.js'
import {isRefusalAttribute} from '../../src/lib/schema/refusal-counts.js'
import {useTable} from '../helpers/table.js'
import {exportForm} from '../manifest/support.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit, type PythonClient, quota, runPythonProgram} from './python-client.js'

describeWithPeers('switches and tables of zae-limiter 0.17', () => {
  const peers = usePeers('0.17')
  const ours = useTable({resourceIndex: 'ALL'})
  let scene: PeerScene

  beforeEach(async () => {
    scene = await peers.currentScene()
    await scene.client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 10)]})
  })

  /** Runs work that must not change any item, except refusal counts and write marks. */
  async function leavesAll(work: () => Promise<void>): Promise<void> {
    const before = await uncounted()
    await work()
    expect(await uncounted()).toEqual(before)
  }

  async function uncounted(): Promise<object> {
    const isCount = (name: string) => isRefusalAttribute(name) || name.startsWith('wn_')
    const items = [...(await scene.items())].map(([key, item]) => {
      return [key, Object.fromEntries(Object.entries(item).filter(([name]) => !isCount(name)))]
    })
    return Object.fromEntries(items)
  }

  /** The minimum release that a writer of a feature stores in the version record. */
  async function requireRelease(release: string): Promise<void> {
    const record = {schema_version: '0.10.0', lambda_version: '0.17.0', updated_by: 'deploy:0.17.0'}
    await scene.client.repository('set_version_record', {...record, client_min_version: release})
  }

  it('G0: open by name up to 0.17.0, and are rejected above with a message about zae-limiter', async () => {
    const limits = [quota('session', 10, {afterSeconds: 3600}), limit('rpm', 10)]
    await scene.client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits})
    expect(await scene.client.repository('get_version_record')).toMatchObject({client_min_version: '0.15.0'})
    const {name: stack, transport} = peers.table
    const {namespace} = scene.client
    const request = async () => {
      await using limiter = new RateLimiter({stack, transport, namespace, clock: () => scene.nowMs})
      return await limiter.tryAcquire({entity: 'u', resource: 'gpt', consume: {rpm: 1, session: 1}})
    }
    expect(await request()).toMatchObject({admitted: true})
    await requireRelease('0.17.0')
    expect(await request()).toMatchObject({admitted: true})
    await requireRelease('0.17.1')
    try {
      await leavesAll(() =>
        expect(request()).rejects.toMatchObject({
          ...{kind: 'conflict', code: 'schema.client-too-old', hint: 'Install a newer zael.'},
          message: expect.stringMatching(/requires zae-limiter 0\.17\.1 or newer; .*up to zae-limiter 0\.17\.0\./),
        }),
      )
    } finally {
      await requireRelease('0.0.0')
    }
  })

  it('G3: are refused by both while disabled', async () => {
    const {client} = scene
    expect(await client.acquire('used', 'gpt', {rpm: 1})).toMatchObject({admitted: 1})
    await using running = scene.limiter()
    const fromMemory = () => running.tryAcquire({entity: 'used', resource: 'gpt', consume: {rpm: 1}})
    expect(await fromMemory()).toMatchObject({admitted: true})
    await client.repository('disable_resource', {resource: 'gpt'})
    expect(await fromMemory()).toMatchObject({admitted: false})
    expect(await scene.totals('used', 'gpt', 'rpm')).toEqual({tokens: 8, consumed: 2})
    await leavesAll(async () => {
      for (const entity of ['used', 'new']) {
        expect(await scene.ask(entity, 'gpt', {rpm: 1}, 3)).toEqual({admitted: 0, refused: 3, errors: []})
        expect(await scene.ask(entity, 'gpt', {rpm: 1}, 1, {onUnavailable: 'allow'})).toMatchObject({admitted: 0})
      }
    })
    for (const entity of ['used', 'new']) {
      expect(await client.acquire(entity, 'gpt', {rpm: 1}, {times: 3})).toMatchObject({
        ...{admitted: 0, first: {type: 'ResourceDisabled'}},
      })
    }
    await client.repository('clear_resource_disabled', {resource: 'gpt'})
    expect(await client.acquire('used', 'gpt', {rpm: 1}, {times: 3})).toMatchObject({admitted: 3})
    expect(await scene.ask('used', 'gpt', {rpm: 1}, 3)).toMatchObject({admitted: 3})
    expect(await scene.totals('used', 'gpt', 'rpm')).toEqual({tokens: 2, consumed: 8})
  })

  it('G3: are disabled and enabled for Python by zael', async () => {
    const {client, repository} = scene
    expect(await client.acquire('used', 'gpt', {rpm: 1})).toMatchObject({admitted: 1})
    const scope = {level: 'resource', resource: 'gpt'} as const
    await repository.setAccess(scope, 'disabled')
    for (const entity of ['used', 'new'])
      expect(await client.acquire(entity, 'gpt', {rpm: 1})).toMatchObject({first: {type: 'ResourceDisabled'}})
    await repository.setAccess(scope, undefined)
    for (const entity of ['used', 'new'])
      expect(await client.acquire(entity, 'gpt', {rpm: 1})).toMatchObject({admitted: 1})
  })

  it('G3: outlive the last limit of their level', async () => {
    await scene.client.repository('disable_resource', {resource: 'gpt'})
    await scene.client.repository('set_system_defaults', {limits: [limit('rpm', 10)]})
    await scene.repository.unsetLimit({level: 'resource', resource: 'gpt'}, 'rpm').catch(() => {})
    await scene.repository.deleteLimits({level: 'resource', resource: 'gpt'}).catch(() => {})
    expect(await scene.client.repository('get_resource_disabled', {resource: 'gpt'})).toBe(true)
    expect(await scene.client.acquire('u', 'gpt', {rpm: 1})).toMatchObject({first: {type: 'ResourceDisabled'}})
  })

  it('G7: decide by the cascade policy whether the parent is charged, and keep it in the bucket', async () => {
    const {client} = scene
    await client.repository('create_entity', {entity_id: 'org'})
    for (const entity of ['used', 'new'])
      await client.repository('create_entity', {entity_id: entity, parent_id: 'org', cascade: true})
    expect(await client.acquire('used', 'gpt', {rpm: 1})).toMatchObject({admitted: 1})
    await client.repository('set_resource_cascade', {resource: 'gpt', cascade: false})
    const before = await scene.bucketItem('org', 'gpt')
    for (const entity of ['used', 'new']) {
      expect(await scene.ask(entity, 'gpt', {rpm: 1}, 3)).toMatchObject({admitted: 3})
      expect(await scene.bucketItem(entity, 'gpt')).toMatchObject({cascade: {BOOL: false}})
      expect(await client.acquire(entity, 'gpt', {rpm: 1}, {times: 2})).toMatchObject({admitted: 2})
    }
    expect(await scene.bucketItem('org', 'gpt')).toEqual(before)
  })

  it('G9: meter a soft limit in both and refuse it in neither', async () => {
    const {client} = scene
    const soft = {entity_id: 'u', resource: 'gpt', limits: [limit('rpm', 3, 60, {soft: true}), limit('tpm', 20)]}
    await client.repository('set_limits', soft)
    expect(await client.acquire('u', 'gpt', {rpm: 1}, {times: 5})).toMatchObject({admitted: 5})
    expect(await scene.ask('u', 'gpt', {rpm: 1}, 6)).toEqual({admitted: 6, refused: 0, errors: []})
    expect(await client.acquire('u', 'gpt', {rpm: 1, tpm: 1}, {times: 15})).toMatchObject({admitted: 15})
    // The other limit is enforced.
    expect(await scene.ask('u', 'gpt', {rpm: 1, tpm: 1}, 10)).toEqual({admitted: 5, refused: 5, errors: []})
    expect(await scene.totals('u', 'gpt', 'rpm')).toMatchObject({consumed: 31})
    expect(await scene.totals('u', 'gpt', 'tpm')).toEqual({tokens: 0, consumed: 20})
    await client.repository('set_limits', {...soft, limits: [limit('rpm', 3)]})
    expect(await scene.ask('u', 'gpt', {rpm: 1}, 3)).toMatchObject({admitted: 0, refused: 3})
    expect(await client.acquire('u', 'gpt', {rpm: 1}, {times: 3})).toMatchObject({admitted: 0, refused: 3})
  })

  describe('G10: on a table of zael', () => {
    const zael = () => new Repository({stack: ours.name, transport: ours.transport, clock: () => scene.nowMs})
    const clock = Date.now
    const backoff = {random: Math.random, sleep: async () => {}}
    const randomBytes = (count: number) => crypto.getRandomValues(new Uint8Array(count))
    const table = () => ({name: ours.name, transport: ours.transport, clock, backoff, randomBytes})
    let client: PythonClient

    beforeEach(async () => {
      await ensureVersion(table(), {by: 'zael:0.1.0'})
      await zael().namespaces.register('shop')
      client = await peers.python.open(ours.name, 'shop')
    })

    it('gives Python everything that zael keeps: sessions, soft limits, cascade policies, bypasses, moves, top-ups', async () => {
      const limits = [quota('session', 10, {afterSeconds: 60}), quota('rpd', 10, {cron: '0 0 * * *'})]
      await client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits})
      expect(await client.repository('get_version_record')).toMatchObject({client_min_version: '0.15.0'})
      expect(await client.acquire('u', 'gpt', {session: 1}, {times: 12})).toMatchObject({admitted: 10, refused: 2})
      const soft = [limit('rpm', 5, 60, {soft: true})]
      await client.repository('set_limits', {entity_id: 's', resource: 'gpt', limits: soft})
      await client.repository('set_resource_cascade', {resource: 'gpt', cascade: false})
      for (const entity_id of ['org', 'other']) await client.repository('create_entity', {entity_id})
      await client.repository('create_entity', {entity_id: 'kid', parent_id: 'org', cascade: true})
      await client.repository('set_parent', {entity_id: 'kid', parent_id: 'other'})
      await client.acquire('u', 'gpt', {rpd: 1})
      await client.repository('top_up', {entity_id: 'u', resource: 'gpt', amounts: {rpd: 5}})
      await client.repository('bypass_entity', {entity_id: 's', resource: 'gpt'})
      const version = {schema_version: '0.9.0', lambda_version: AGGREGATOR_MARK, client_min_version: '0.17.0'}
      expect(await client.repository('get_version_record')).toMatchObject(version)
      expect((await zael().namespace('shop')).id).toBe(client.namespaceId)
    })

    it('needs no upgrade by Python, which changes neither stack nor function', async () => {
      const {stdout, code} = await runPythonProgram('0.17', ['upgrade', '--name', ours.name, '--region', 'us-east-1'])
      expect({stdout, code}).toMatchObject({
        stdout: expect.stringContaining('Lambda code is already up to date'),
        code: 0,
      })
      expect(stdout).not.toContain('Applying stack template')
    })

    it('is refused by Python without the mark, until a deployment or an aggregator sets it', async () => {
      const unmarked = {schema_version: '0.9.0', updated_by: 'zael:0.1.0', client_min_version: '0.0.0'}
      await client.repository('set_version_record', unmarked)
      const older = await peers.python.open(ours.name, 'shop')
      const session = {entity_id: 'v', resource: 'gpt', limits: [quota('session', 10, {afterSeconds: 60})]}
      await expect(older.repository('set_limits', session)).rejects.toThrow('VersionMismatchError')
      expect(await older.acquire('u', 'gpt', {rpd: 1})).toMatchObject({admitted: 1})
      await markAggregator(table())
      await older.repository('set_limits', session)
      expect(await older.acquire('v', 'gpt', {session: 1})).toMatchObject({admitted: 1})
    })
  })

  it('G11: show records of 0.17 in a survey, and quotas in an export', async () => {
    const {client, repository} = scene
    const limits = [quota('rpd', 10, {cron: '0 0 * * *'}), limit('rpm', 5), quota('s', 7, {afterSeconds: 3600})]
    await client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits})
    await client.acquire('u', 'gpt', {rpd: 1, rpm: 1})
    const topUp = {entity_id: 'u', resource: 'gpt', amounts: {rpd: 5}, idempotency_key: 'p1'}
    await client.repository('top_up', topUp)
    const survey = await surveyTable(scene.tenant, {ourVersion: '0.1.0'})
    expect(survey.unknown.items).toBe(0)
    expect((await exportForm(repository, 'x')).entities).toEqual({
      u: {resources: {gpt: {limits: {rpd: '10/day@UTC', rpm: '5/min', s: '7/hour!'}}}},
    })
  })

  it('G12: store no period that Python cannot read', async () => {
    const scope = {level: 'entity', entity: 'u', resource: 'gpt'} as const
    const thirtyTwoYears = [{name: 'rpm', capacity: 5, refillAmount: 5, refillPeriodSeconds: 1_009_152_000}]
    await leavesAll(async () => {
      await expect(scene.repository.setLimits(scope, thirtyTwoYears)).rejects.toMatchObject({kind: 'usage'})
    })
    expect(() => parseLimits(['rpm=5/11680d'])).toThrow()
    expect(await scene.client.acquire('u', 'gpt', {rpm: 1})).toMatchObject({admitted: 1})
  })
})

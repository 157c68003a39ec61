import {beforeEach, expect, it} from 'vitest'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import type {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {OperatorScene, USER} from './scene.js'

const RESOURCE = {level: 'resource', resource: USER.resource} as const
const ENTITY = {level: 'entity', ...USER} as const

/** Limits of the resource, and other settings of an operator or another client. */
interface Configuration {
  readonly limits: readonly string[]
  readonly prepare?: (repository: NamespaceRepository, scene: OperatorScene) => Promise<unknown>
}

const CONFIGURATIONS: Readonly<Record<string, Configuration>> = {
  'a calendar quota': {limits: ['q=10/day@Europe/Berlin', 'rpm=1000/min']},
  'a session': {limits: ['q=10/5h!', 'rpm=1000/min']},
  'a soft quota and a schedule': {limits: ['q=10/day@UTC,soft', 'rpm=1000/min,x0.5@"* 22,23 * * * UTC"']},
  'limits of the entity, which never expire': {
    limits: [],
    prepare: (_, scene) => scene.configure(ENTITY, 'q=10/day@UTC'),
  },
  'a parent that is charged': {
    limits: ['q=10/day@UTC'],
    prepare: async ({entities}) => {
      await entities.create({id: 'team'})
      await entities.create({id: USER.entity, parent: 'team', cascade: true})
    },
  },
  'a parent that a policy exempts': {
    limits: ['q=10/day@UTC'],
    prepare: async repository => {
      await repository.entities.create({id: 'team'})
      await repository.entities.create({id: USER.entity, parent: 'team', cascade: true})
      await repository.setCascade(RESOURCE, false)
    },
  },
  'a bypass': {
    limits: ['q=10/day@UTC', 'rpm=1000/min'],
    prepare: repository => repository.setAccess(RESOURCE, 'bypass'),
  },
  'a bypass of the entity': {
    limits: ['q=10/day@UTC'],
    prepare: repository => repository.setAccess(ENTITY, 'bypass'),
  },
}

const CASES = Object.entries(CONFIGURATIONS)

/** Attributes that the first use itself stores: write marks, consumption, counts and top-ups. */
const OF_THE_USE = /^(wn_\d|lr|bi|rq|b_wcu_tc|b_q_(tk|tc|tu))$/

describeOnBoth('a bucket', {timeout: 60_000}, table => {
  let scene: OperatorScene

  beforeEach(() => {
    scene = new OperatorScene(table)
  })

  async function prepared({limits, prepare}: Configuration): Promise<OperatorScene> {
    scene = new OperatorScene(table)
    if (limits.length > 0) await scene.configureUser(...limits)
    await prepare?.(scene.operator(), scene)
    return scene
  }

  async function item(shard = 0): Promise<Item> {
    const Key = wireKey(keys.bucket(scene.namespace, USER.entity, USER.resource, shard))
    return (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item ?? {}
  }

  /** The attributes of a shard that do not depend on its namespace, its entity's creation, its number or its first use. */
  function comparable(stored: Item, isOfUse = OF_THE_USE): Record<string, unknown> {
    const entries = Object.entries(stored).filter(([name]) => !isOfUse.test(name))
    const text = (value: unknown) => JSON.stringify(value).replaceAll(scene.namespace, 'NS')
    return Object.fromEntries(entries.map(([name, value]) => [name, name === 'pinc' ? 'a creation' : text(value)]))
  }

  it.each(CASES)('has the same item when a top-up creates it as when a request does: %s', async (_, configuration) => {
    await prepared(configuration)
    await scene.limiter().acquire({...USER, consume: {q: 1}})
    const requested = await item()
    const first = comparable(requested)
    await prepared(configuration)
    expect(await scene.topUp({q: 5})).toMatchObject({amounts: {q: 5}})
    const made = await item()
    expect(comparable(made)).toEqual(first)
    const isBypassed = 'bypass' in requested
    expect([requested.b_q_tk, made.b_q_tk, made.b_q_tu]).toEqual([
      {N: isBypassed ? '10000' : '9000'},
      {N: '15000'},
      {N: '5000'},
    ])
  })

  it.each(CASES)('gets shards with the same attributes as the first: %s', async (_, configuration) => {
    await prepared(configuration)
    await scene.limiter().acquire({...USER, consume: {q: 1}})
    expect(await splitBucket(scene.tenant, USER.entity, USER.resource, 1)).toBe(2)
    // The first of several shards never expires.
    expect(await item(0)).not.toHaveProperty('ttl')
    const ofShard = /^(PK|GSI\dSK|wn_\d|lr|rq|ttl|b_.*_(tk|tc|gc))$/
    expect(comparable(await item(1), ofShard)).toEqual(comparable(await item(0), ofShard))
  })

  it.each(['disabled', 'bypass'] as const)('gets shards that are %s too', async access => {
    await prepared({limits: ['q=10/day@UTC']})
    await scene.limiter().acquire({...USER, consume: {q: 1}})
    await scene.operator().setAccess(RESOURCE, access)
    await scene.split(2)
    const stamps = await Promise.all([0, 1, 2, 3].map(async shard => (await item(shard))[access]))
    const stamp = access === 'disabled' ? {BOOL: true} : {N: expect.stringMatching(/^\d+$/)}
    expect(stamps[0]).toEqual(stamp)
    expect(stamps).toEqual(stamps.map(() => stamps[0]))
  })
})

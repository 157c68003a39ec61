import {expect} from 'vitest'
import {refillBucket} from '../../src/lib/core/buckets/bucket.js'
import {toTokens} from '../../src/lib/core/token-math.js'
import {Repository} from '../../src/lib/repository/repository.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {decodeAudit} from '../../src/lib/schema/audit-record.js'
import {decodeBucket} from '../../src/lib/schema/bucket-record.js'
import {decodeConfig} from '../../src/lib/schema/config-record.js'
import {decodeEntity} from '../../src/lib/schema/entity-record.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {decodeEntityConfigRegistry} from '../../src/lib/schema/registry-records.js'
import {decodeUsage} from '../../src/lib/schema/usage-record.js'
import {type Expected, scopeName, usageName} from './fixtures/expected.js'
import type {OldTableScene} from './old-table-scene.js'

/** The records of one namespace, in the format of the expectation. */
async function held(scene: OldTableScene) {
  const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})
  const namespace = await repository.namespaces.resolve('default')
  const items = (await scene.items()).filter(item => (item.PK as {S: string}).S.startsWith(`${namespace?.id}/`))
  const decoded = <T>(decode: (item: Item) => T | undefined): T[] => items.flatMap(item => decode(item) ?? [])
  return {
    entities: decoded(decodeEntity),
    configs: decoded(decodeConfig),
    buckets: decoded(decodeBucket).flatMap(stored => (stored.kind === 'bucket' ? [stored.record] : [])),
    usage: decoded(decodeUsage),
    audit: decoded(decodeAudit),
  }
}

interface ExpectOptions {
  /** Records of midnight are in today's place already, mixed as they are, and stay so. */
  readonly midnightsStay?: boolean
}

/** Compares the table with the expectation, and the limiter with the earlier balances. */
export async function expectMigrated(
  scene: OldTableScene,
  expected: Expected,
  options: ExpectOptions = {},
): Promise<void> {
  const {entities, configs, buckets, usage, audit} = await held(scene)
  const {nowMs} = scene
  expect(
    new Map(
      entities.map(({entity: id, name, parent, cascade, metadata, createdAt}) => [
        id,
        {id, name, parent, cascade, metadata, createdAt},
      ]),
    ),
  ).toEqual(expected.entities)

  const system = configs.find(({scope}) => scope.level === 'system')
  expect(system?.onUnavailable).toBe(expected.onUnavailable)
  expect(system?.auditRetentionDays).toBe(expected.auditRetentionDays)
  const limits = configs
    .filter(config => config.limits.length > 0)
    .map(config => [scopeName(config.scope), config.limits] as const)
  expect(new Map(limits)).toEqual(expected.limits)

  expect(buckets.length).toBe(expected.liveBuckets)
  for (const {entity, cascade, parent} of buckets) {
    const known = expected.entities.get(entity)
    if (known) expect({entity, cascade, parent}).toEqual({entity, cascade: known.cascade, parent: known.parent})
  }
  const balances = buckets.flatMap(({entity, resource, state}) =>
    [...refillBucket(state, nowMs).limits]
      .filter(([limit]) => limit !== 'wcu')
      .map(([limit, {tokensMilli}]) => [`${entity} ${resource} ${limit}`, tokensMilli] as const),
  )
  const wanted = expected.balances.map(
    ({entity, resource, limit, at}) => [`${entity} ${resource} ${limit}`, at(nowMs)] as const,
  )
  expect(new Map(balances)).toEqual(new Map(wanted))

  const isCompared = (start: string) => !options.midnightsStay || !start.endsWith('T00:00:00Z')
  const counted = usage
    .filter(({start}) => isCompared(start))
    .map(
      ({entity, resource, window, start, tokens, totalEvents}) =>
        [
          usageName(entity, resource, window, start),
          {tokens: new Map([...tokens].sort()), events: totalEvents},
        ] as const,
    )
  const counts = [...expected.usage]
    .filter(([name]) => isCompared(name))
    .map(([name, {tokens, events}]) => [name, {tokens: new Map([...tokens].sort()), events}] as const)
  expect(new Map(counted)).toEqual(new Map(counts))
  expect(audit.map(({eventId}) => eventId).sort()).toEqual(expected.auditIds)

  await expectFindable(scene, expected)

  // Only entities with their own limits, and without a parent that may have less.
  const limiter = scene.limiter()
  const own = expected.balances.filter(
    ({entity, resource}) =>
      expected.limits.has(`entity ${entity} ${resource}`) && !expected.entities.get(entity)?.cascade,
  )
  expect(own.length).toBeGreaterThan(0)
  for (const {entity, resource, limit, at} of own) {
    const available = (await limiter.available({entity, resource}))[limit]
    expect({entity, resource, limit, available}).toEqual({entity, resource, limit, available: toTokens(at(nowMs))})
  }
}

/** Registries list the configuration, and the indexes contain every item of the namespace. */
async function expectFindable(scene: OldTableScene, {limits}: Expected): Promise<void> {
  const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})
  const namespace = await repository.namespace('default')
  const {id} = await repository.namespaces.show('default')
  const resources = (await namespace.configs.resources()).map(config => scopeName(config.scope)).sort()
  expect(resources).toEqual([...limits.keys()].filter(name => name.startsWith('resource ')).sort())
  const counts: Record<string, number> = {}
  for (const name of limits.keys()) {
    const [level, , resource = ''] = name.split(' ')
    if (level === 'entity') counts[resource] = (counts[resource] ?? 0) + 1
  }
  const registry = {TableName: scene.name, Key: wireKey(keys.entityConfigRegistry(id)), ConsistentRead: true}
  const {Item: registered = {}} = await scene.own.send('GetItem', registry)
  expect(Object.fromEntries(decodeEntityConfigRegistry(registered)?.counts ?? [])).toEqual(counts)
  for (const [resource, count] of Object.entries(counts)) {
    expect((await namespace.configs.entities(resource)).records).toHaveLength(count)
  }
  const {other: _, ...indexed} = await repository.namespaces.countIndexed(id)
  const {other: __, ...all} = await repository.namespaces.countItems(id)
  expect(indexed).toEqual(all)
}

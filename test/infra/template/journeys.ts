import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {
  declareDead,
  deleteHolder,
  HolderRecords,
  readHolder,
  reapSlots,
  sendBeat,
} from '../../../src/lib/repository/buckets/holders.js'
import {
  endReservation,
  openReservations,
  returnReservation,
  storeReservation,
} from '../../../src/lib/repository/buckets/reservations.js'
import {fillMissingShards, healShardCount, splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {type NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import type {NamespaceTable} from '../../../src/lib/repository/table/table.js'
import {ensureVersion, readVersion} from '../../../src/lib/repository/table/version.js'
import {type Item, n} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import type {ReservedTokens} from '../../../src/lib/schema/reservation-record.js'
import {tableOver} from '../../aggregator/fixtures/stream.js'
import {PATIENT_MS, type TestTable} from '../../helpers/table.js'
import {manyManaged} from '../../repository/limits/support.js'
import {type Authorisation, RecordingTransport} from './authorisations.js'

/** Calls by method name. */
export type Recorded = ReadonlyMap<string, readonly Authorisation[]>

type Steps<T> = Readonly<Record<string, (on: T) => unknown>>

const RESOURCE = 'gpt-4'
const MANAGED = {managesSystem: false, resources: [RESOURCE], entities: new Map()}
const NOTE = {entity: 'child', action: 'noted', details: {}}
const ofResource = {level: 'resource', resource: RESOURCE} as const
const request = (entity: string, consume: Record<string, number> = {rpm: 1}) => ({entity, resource: RESOURCE, consume})

const anHourFrom = (ms: number): Date => new Date(ms + 3_600_000)

/** Everything that a program can do with a rate limiter. */
const LIMITER: Steps<RateLimiter> = {
  resolveLimits: limiter => limiter.resolveLimits({entity: 'child', resource: RESOURCE}),
  acquire: async limiter => {
    await limiter.acquire(request('child'))
    await limiter.acquire(request('child'))
    const lease = await limiter.acquire(request('child'))
    await lease.adjust({rpm: 1})
    await lease.consume({rpm: 1})
    await lease.release({rpm: 1})
    await lease.rollback()
    await limiter.acquire(request('child', {rpm: 90}))
    await limiter.acquire(request('child', {rpm: 90})).catch(() => {})
  },
  tryAcquire: limiter => limiter.tryAcquire(request('child')),
  delegate: async limiter => {
    const run = await limiter.delegate({entity: 'child', resource: RESOURCE, amounts: {rpm: 2}, for: '1h'})
    const sub = await run.delegate({amounts: {rpm: 1}})
    await sub.acquire({consume: {rpm: 1}})
    await run.state()
    await run.end()
  },
  tryDelegate: limiter => limiter.tryDelegate({entity: 'child', resource: RESOURCE, amounts: {rpm: 1}, for: '1h'}),
  run: limiter => limiter.run('nothing').catch(() => {}),
  settled: limiter => limiter.settled(),
  withLease: limiter => limiter.withLease(request('single'), () => {}),
  check: limiter => limiter.check(request('child')),
  available: limiter => limiter.available(request('child')),
  timeUntilAvailable: limiter => limiter.timeUntilAvailable(request('child')),
  reportProviderLimits: limiter => limiter.reportProviderLimits({entity: 'child', resource: RESOURCE, left: {rpm: 0}}),
  resourceCapacity: limiter => limiter.resourceCapacity(RESOURCE),
  uncountedRefusals: async limiter => limiter.uncountedRefusals,
  cacheEntries: async limiter => limiter.cacheEntries,
  ping: limiter => limiter.ping(),
  cacheStats: async limiter => limiter.cacheStats(),
  invalidate: async limiter => {
    limiter.invalidate()
    await limiter.tryAcquire(request('child'))
  },
  close: limiter => limiter.close(),
}

/** Methods that read one namespace. */
const LOOKS: Steps<NamespaceRepository> = {
  'audit.author': tenant => tenant.audit.author(),
  'audit.get': tenant => tenant.audit.get('child', 'none'),
  'audit.find': tenant => tenant.audit.find('none'),
  'audit.list': tenant => tenant.audit.list({entity: 'child'}),
  'audit.listAll': tenant => tenant.audit.listAll(),
  'buckets.get': tenant => tenant.buckets.get('child', RESOURCE, 0),
  'buckets.find': tenant => tenant.buckets.find('child', RESOURCE),
  'buckets.findMany': tenant => tenant.buckets.findMany([{entity: 'child', resource: RESOURCE}]),
  'buckets.ofEntity': tenant => all(tenant.buckets.ofEntity('child')),
  'buckets.ofResource': tenant => all(tenant.buckets.ofResource(RESOURCE)),
  'buckets.ofNamespace': tenant => all(tenant.buckets.ofNamespace()),
  'configs.get': tenant => tenant.configs.get(ofResource),
  'configs.getMany': tenant => tenant.configs.getMany([ofResource, {level: 'system'}]),
  'configs.readableLimits': tenant => tenant.configs.readableLimits([ofResource, {level: 'system'}]),
  'configs.resolve': tenant => tenant.configs.resolve({entity: 'child', resource: RESOURCE}),
  'configs.onUnavailable': tenant => tenant.configs.onUnavailable(),
  'configs.withBoosts': async tenant =>
    tenant.configs.withBoosts(await tenant.configs.resolve({entity: 'child', resource: RESOURCE})),
  'configs.boosts': tenant => tenant.configs.boosts(),
  'configs.units': tenant => tenant.configs.units(),
  'configs.keepUnits': async tenant => tenant.configs.keepUnits(),
  'configs.resources': tenant => tenant.configs.resources(),
  'configs.ofEntity': tenant => tenant.configs.ofEntity('child'),
  'configs.entities': tenant => tenant.configs.entities(RESOURCE),
  'configs.walkEntities': tenant => all(tenant.configs.walkEntities(RESOURCE)),
  'configs.resourcesOfEntities': tenant => tenant.configs.resourcesOfEntities(),
  'configs.preview': tenant => tenant.configs.preview(ofResource, parseLimits(['rpm=7'])),
  'entities.get': tenant => tenant.entities.get('child'),
  'entities.need': tenant => tenant.entities.need('child'),
  'entities.getMany': tenant => tenant.entities.getMany(['child', 'parent']),
  'entities.list': tenant => tenant.entities.list(),
  'entities.search': tenant => tenant.entities.search({text: 'chi'}),
  'entities.walk': tenant => all(tenant.entities.walk({text: 'chi'})),
  'entities.everyId': tenant => all(tenant.entities.everyId()),
  'entities.similar': tenant => tenant.entities.similar('chidl'),
  'entities.children': tenant => tenant.entities.children('parent'),
  'entities.parents': tenant => tenant.entities.parents('child'),
  'entities.countRemoval': tenant => tenant.entities.countRemoval('child'),
  'provisioner.get': tenant => tenant.provisioner.get(),
  'applyLock.get': tenant => tenant.applyLock.get(),
  endedCopies: tenant => tenant.endedCopies(),
  levels: tenant => tenant.levels(),
  bucket: tenant => tenant.bucket({entity: 'child', resource: RESOURCE}),
  usageWindows: async tenant => {
    await tenant.usageWindows({entity: 'child'})
    await tenant.usageWindows({resource: RESOURCE})
  },
  usageTotals: tenant => tenant.usageTotals({resource: RESOURCE}),
  'usage.ofEntity': tenant => tenant.usage.ofEntity('child'),
  'usage.ofResource': tenant => tenant.usage.ofResource(RESOURCE),
  'usage.ofEntities': tenant => all(tenant.usage.ofEntities(tenant.entities.everyId(), {})),
  'usage.records': async tenant => {
    for await (const _ of tenant.usage.records({resource: RESOURCE, window: 'daily'})) break
  },
  'usage.summary': tenant => tenant.usage.summary({resource: RESOURCE}),
}

/** Methods that change one namespace. */
const CHANGES: Steps<NamespaceRepository> = {
  'audit.put': tenant => tenant.audit.put(NOTE),
  'audit.record': tenant => tenant.audit.record(NOTE),
  'entities.create': tenant => tenant.entities.create({id: 'new', parent: 'parent', cascade: true}),
  'entities.update': tenant => tenant.entities.update('new', {parent: null}),
  'entities.change': tenant => tenant.entities.change('child', {name: 'Child', cascade: false}),
  'configs.set': tenant => tenant.configs.set({level: 'system'}, parseLimits(['rpm=1k', 'rpd=1M/day'])),
  'configs.endBoosts': async tenant => {
    await tenant.configs.set({level: 'system'}, parseLimits(['rpm=2k']), {until: anHourFrom(Date.now())})
    await tenant.configs.endBoosts({level: 'system'})
  },
  'configs.tidy': async tenant => {
    await tenant.configs.set({level: 'system'}, parseLimits(['rpm=2k']), {until: anHourFrom(Date.now())})
    laterMs += 2 * 3_600_000
    await tenant.configs.tidy({level: 'system'})
    laterMs -= 2 * 3_600_000
  },
  'configs.unset': tenant => tenant.configs.unset({level: 'system'}, 'rpm'),
  'configs.delete': tenant => tenant.configs.delete({level: 'system'}),
  'configs.setAccess': tenant => tenant.configs.setAccess(ofResource, 'enabled'),
  setAccess: tenant => tenant.setAccess(ofResource, undefined),
  'configs.setCascade': tenant => tenant.configs.setCascade(ofResource, true),
  setCascade: tenant => tenant.setCascade(ofResource, undefined),
  setLimits: async tenant => {
    await tenant.setLimits(ofResource, parseLimits(['rpm=200', 'tpm=1k']))
    await tenant.setLimits({level: 'entity', entity: 'child', resource: RESOURCE}, parseLimits(['rpm=300']))
  },
  endBoosts: async tenant => {
    await tenant.setLimits(ofResource, parseLimits(['rpm=250']), {until: anHourFrom(Date.now())})
    await tenant.endBoosts(ofResource, undefined)
  },
  unsetLimit: tenant => tenant.unsetLimit(ofResource, 'tpm'),
  syncAll: tenant => tenant.syncAll(),
  resetBucket: tenant => tenant.resetBucket({entity: 'child', resource: RESOURCE}),
  topUpBucket: tenant => tenant.topUpBucket({entity: 'child', resource: RESOURCE}, {rpm: 1}),
  deleteLimits: tenant => tenant.deleteLimits({level: 'entity', entity: 'child', resource: RESOURCE}),
  deleteConfig: tenant => tenant.deleteConfig(ofResource),
  'provisioner.save': async tenant => {
    const divided = await tenant.provisioner.save(manyManaged(25), await tenant.provisioner.get())
    await tenant.provisioner.save(MANAGED, divided)
  },
  'applyLock.take': async tenant => {
    const lock = await tenant.applyLock.take({owner: 'tester'})
    await lock.save({})
    await lock.release()
  },
  'applyLock.remove': async tenant => {
    const lock = await tenant.applyLock.take({owner: 'tester'})
    await tenant.applyLock.remove(lock.record)
    await lock.abandon()
  },
  'entities.delete': tenant => tenant.entities.delete('child'),
}

/** Methods on namespaces, and the read-only ones. */
const REGISTRY_LOOKS: Steps<Repository> = {
  'namespaces.resolve': ({namespaces}) => namespaces.resolve('spare'),
  'namespaces.show': ({namespaces}) => namespaces.show('spare'),
  'namespaces.find': ({namespaces}) => namespaces.find('spare'),
  'namespaces.list': ({namespaces}) => namespaces.list(),
  'namespaces.orphans': ({namespaces}) => namespaces.orphans(),
  'namespaces.unregistered': ({namespaces}) => namespaces.unregistered(),
  'namespaces.deletable': ({namespaces}) => namespaces.deletable('spare'),
  'namespaces.countItems': async ({namespaces}) => namespaces.countItems((await namespaces.show('spare')).id),
  'namespaces.countIndexed': async ({namespaces}) => namespaces.countIndexed((await namespaces.show('spare')).id),
}

/** How far the clock of the journeys is ahead. */
let laterMs = 0

const REGISTRY_CHANGES: Steps<Repository> = {
  'namespaces.register': ({namespaces}) => namespaces.register('another'),
  'namespaces.registerMany': ({namespaces}) => namespaces.registerMany(['some', 'more']),
  'namespaces.setLevels': ({namespaces}) => namespaces.setLevels('another', 'all'),
  'namespaces.delete': ({namespaces}) => namespaces.delete('another'),
  'namespaces.recover': async ({namespaces}) => namespaces.recover((await orphan(namespaces)).id),
  'namespaces.purgeable': async ({namespaces}) => {
    await namespaces.delete('spare')
    await namespaces.purgeable((await orphan(namespaces)).id)
  },
  'namespaces.purge': async ({namespaces}) => {
    // A purge waits until a minute after the deletion.
    laterMs += 60_000
    await namespaces.purge((await orphan(namespaces)).id)
  },
}

/** All calls of all code paths, run on a table in a separate namespace. */
export interface Journeys {
  /** The opaque id of the namespace. */
  readonly namespace: string
  readonly limiter: Recorded
  readonly looks: Recorded
  readonly changes: Recorded
  readonly registryLooks: Recorded
  readonly registryChanges: Recorded
}

export async function recordJourneys(table: TestTable): Promise<Journeys> {
  const transport = new RecordingTransport(table.transport)
  const open = {stack: table.name, transport, clock: () => Date.now() + laterMs}
  const repository = new Repository(open)
  const {namespace} = await repository.namespaces.register('tenant')
  const spare = await repository.namespaces.register('spare')
  await repository.namespaceById(spare.namespace.id).entities.create({id: 'user-1'})
  const tenant = repository.namespaceById(namespace.id)
  await tenant.entities.create({id: 'parent'})
  await tenant.entities.create({id: 'child', parent: 'parent', cascade: true})
  await tenant.setLimits(ofResource, parseLimits(['rpm=100']))
  transport.take()

  const own = {...tableOver(transport, table.name, Date.now), namespace: namespace.id}
  const limiter = await recorded(
    transport,
    LIMITER,
    new RateLimiter({...open, namespace: 'tenant', timeoutMs: PATIENT_MS}),
  )
  limiter.set('dead holders', await recordOne(transport, () => lookAtDeadHolder(own)))
  // The calls of a limiter for a bucket with too many writes, and after another client increased the shard count.
  limiter.set('split', await recordOne(transport, () => splitBucket(own, 'child', RESOURCE, 1)))
  await announceShards(table, namespace.id, 4)
  limiter.set('fill', await recordOne(transport, () => fillMissingShards(own, 'child', RESOURCE, 32)))
  await announceShards(table, namespace.id, 1000)
  limiter.set('heal', await recordOne(transport, () => healShardCount(own, 'child', RESOURCE, 32)))

  const looks = await recorded(transport, LOOKS, tenant)
  const changes = await recorded(transport, CHANGES, tenant)
  const registryLooks = await recorded(transport, REGISTRY_LOOKS, repository)
  const registryChanges = await recorded(transport, REGISTRY_CHANGES, repository)
  registryChanges.set('ensureVersion', await recordOne(transport, () => ensureVersion(own, {by: 'test'})))
  registryLooks.set('readVersion', await recordOne(transport, () => readVersion(own)))
  return {namespace: namespace.id, limiter, looks, changes, registryLooks, registryChanges}
}

async function recorded<T>(
  transport: RecordingTransport,
  steps: Steps<T>,
  on: T,
): Promise<Map<string, Authorisation[]>> {
  const calls = new Map<string, Authorisation[]>()
  for (const [name, step] of Object.entries(steps)) calls.set(name, await recordOne(transport, () => step(on)))
  return calls
}

async function recordOne(transport: RecordingTransport, step: () => unknown): Promise<Authorisation[]> {
  await step()
  return transport.take()
}

/** Everything that a limiter does with the slots and reservations of itself and of a dead process. */
async function lookAtDeadHolder(own: NamespaceTable): Promise<void> {
  const id = 'a-holder'
  const holder = {namespace: own.namespace, id, host: 'gw', pid: 1, startedAt: ''}
  const bucket = {entity: 'child', resource: RESOURCE}
  await sendBeat(own, {holder, before: undefined, next: '1'})
  const quota: ReservedTokens = {
    ...{...bucket, shard: 0, limit: 'rpd', milli: 1000n, incarnation: undefined},
    period: {definition: 'former', isSession: false},
  }
  for (const reserved of ['1', '2']) await storeReservation(own, {holder: id, id: reserved}, [quota])
  await endReservation(own, {holder: id, id: '1'})
  const records = new HolderRecords(own)
  if (!(await records.ids()).includes(id)) throw new Error('the holder is not in the index')
  await declareDead(own, id, await readHolder(own, id))
  await reapSlots(own, bucket, id)
  for (const open of await openReservations(own, id)) await returnReservation(own, open)
  await deleteHolder(own, id, '1')
}

/** Acts as a client that doubles the shard count and leaves the creation of shards to others. */
async function announceShards(table: TestTable, namespace: string, count: number): Promise<void> {
  const {PK, SK} = keys.bucket(namespace, 'child', RESOURCE, 0)
  await table.transport.send('UpdateItem', {
    TableName: table.name,
    Key: {PK: {S: PK}, SK: {S: SK}},
    UpdateExpression: 'SET shard_count = :count',
    ExpressionAttributeValues: {':count': n(count)} as Item,
  })
}

async function orphan(namespaces: Repository['namespaces']) {
  const [first] = await namespaces.orphans()
  if (!first) throw new Error('no namespace is deleted')
  return first
}

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const each of source) found.push(each)
  return found
}

import {expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {type BucketRecord, decodeBucket, encodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {encodeConfig} from '../../../src/lib/schema/config-record.js'
import {encodeEntity} from '../../../src/lib/schema/entity-record.js'
import {encodeNamespaceById, encodeNamespaceByName} from '../../../src/lib/schema/namespace-record.js'
import {decodeUsage, encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {describeOnEngine} from '../../helpers/table.js'
import {keyText, useOldTable} from '../old-table-scene.js'

const NOW = Date.UTC(2026, 5, 15, 12, 34, 56, 789)
const LIMIT = {name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 60}

const usage = {
  namespace: 'default',
  entity: 'user-1',
  resource: 'gpt-4',
  start: '2026-06-14T00:00:00Z',
  totalEvents: 3,
  ttlSeconds: undefined,
}

function shard(number: number, tokensMilli: bigint, consumedMilli: bigint): BucketRecord {
  const rate = {capacityMilli: 100_000n, refillAmountMilli: 100_000n, refillPeriodMs: 60_000}
  const state = {refilledAtMs: NOW, limits: new Map([['rpm', {...rate, tokensMilli, consumedMilli, remainder: 0n}]])}
  const rest = {entity: 'user-1', resource: 'gpt-4', cascade: false, parent: undefined, ttlSeconds: undefined}
  return {namespace: 'default', ...rest, shard: number, shardCount: 2, state}
}

/** Written in the current layout by a client that did not use the namespace registry. */
const literal: Item[] = [
  encodeEntity({
    namespace: 'default',
    entity: 'user-1',
    name: 'One',
    parent: undefined,
    cascade: false,
    metadata: {},
    createdAt: '2026-01-01T00:00:00Z',
    version: 0,
  }),
  encodeConfig({
    namespace: 'default',
    scope: {level: 'entity', entity: 'user-1', resource: 'gpt-4'},
    limits: [LIMIT],
    onUnavailable: undefined,
    auditRetentionDays: undefined,
  }),
  encodeUsage({...usage, window: 'hourly', tokens: new Map([['rpm', 4]])}),
  encodeUsage({...usage, window: 'daily', tokens: new Map([['rpm', 9]])}),
  encodeBucket(shard(0, 30_000n, 5000n)),
  encodeBucket(shard(1, 11_000n, 2000n)),
]

const registered = {id: 'aB3x_9QwErT', name: 'default', status: 'active', createdAt: '', deletedAt: undefined} as const

/** The same entity and hour, as a client without namespaces wrote them. */
const bare: Item[] = [
  {...(literal[0] as Item), PK: s('ENTITY#user-1'), name: s('An older name')},
  {
    ...(literal[2] as Item),
    PK: s('ENTITY#user-1'),
    SK: s('#USAGE#gpt-4#2026-06-14T05:00:00Z'),
    window_start: s('2026-06-14T05:00:00Z'),
  },
  {
    ...(literal[2] as Item),
    SK: s('#USAGE#gpt-4#2026-06-14T05:00:00Z'),
    window_start: s('2026-06-14T05:00:00Z'),
    rpm: n(7),
  },
]

describeOnEngine('records that exist both under the literal id "default" and without a namespace', () => {
  const scene = useOldTable(6, () => [
    ...literal,
    ...bare,
    encodeNamespaceById(registered),
    encodeNamespaceByName(registered),
  ])
  const hour = async () => {
    const items = await scene.items()
    const found = items.find(item => keyText(item).includes(registered.id) && keyText(item).includes('T05:00:00Z'))
    return found && decodeUsage(found)
  }

  it('are merged: the newer entity wins, usage adds up, and a second run changes nothing', async () => {
    expect(await scene.migrate()).toMatchObject({settled: true, conflicts: {count: 0}})
    expect((await scene.migrate()).steps.every(({written}) => written === 0)).toBe(true)
    expect((await scene.verify()).differences.shown).toEqual([])
    const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => NOW})
    expect(await (await repository.namespace('default')).entities.get('user-1')).toMatchObject({name: 'One'})
    expect((await hour())?.tokens.get('rpm')).toBe(4 + 7)
    expect((await scene.cleanUp()).left.count).toBe(0)
    expect((await scene.census()).old).toEqual({})
    expect((await hour())?.tokens.get('rpm')).toBe(4 + 7)
  })
})

describeOnEngine('records under the literal id "default"', () => {
  const moved = useOldTable(6, () => [...literal, encodeNamespaceById(registered), encodeNamespaceByName(registered)])
  const alone = useOldTable(6, () => literal)

  it('move to the namespace of that name, with their shards added up', async () => {
    expect((await moved.verify()).clean).toBe(false)
    expect(await moved.migrate()).toMatchObject({finished: true, settled: true, conflicts: {count: 0}})
    expect((await moved.verify()).differences.shown).toEqual([])
    const repository = new Repository({stack: moved.name, transport: moved.own, clock: () => NOW})
    const namespace = await repository.namespace('default')
    expect(await namespace.entities.get('user-1')).toMatchObject({name: 'One'})
    expect((await namespace.configs.ofEntity('user-1'))[0]?.limits).toEqual([LIMIT])
    const [bucket] = (await moved.items()).flatMap(item => {
      const stored = decodeBucket(item)
      return stored?.kind === 'bucket' && stored.record.namespace === registered.id ? [stored.record] : []
    })
    expect(bucket).toMatchObject({shard: 0, shardCount: 1})
    expect(bucket?.state.limits.get('rpm')).toMatchObject({
      tokensMilli: 41_000n,
      capacityMilli: 100_000n,
      consumedMilli: 0n,
    })
    const {deleted} = await moved.cleanUp()
    expect(deleted).toEqual({entity: 1, limits: 1, usage: 2, bucket: 2})
    expect((await moved.census()).old).toEqual({})
    expect((await moved.census()).current).toMatchObject({entity: 1, limits: 1, usage: 2, bucket: 1})
  })

  it('stay where they are while no namespace has that name', async () => {
    const before = (await alone.items()).length
    const result = await alone.migrate()
    expect(result.steps.filter(({checked}) => checked > 0).every(({written}) => written === 0)).toBe(true)
    expect((await alone.verify()).checked).toEqual({})
    // The version record and the migration record.
    expect((await alone.items()).length).toBe(before + 2)
  })
})

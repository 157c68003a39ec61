import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {
  type ClassifiedRecord,
  classifyItem,
  type Generation,
  targetKey,
} from '../../../src/lib/migrate/records/classify.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {decodeConfig, encodeConfig} from '../../../src/lib/schema/config-record.js'
import {migrationRecordKey} from '../../../src/lib/schema/migration-record.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {runs} from '../../helpers/runs.js'
import {FIXTURE_NAMESPACE, retentionStub} from '../fixtures/generation-5.js'
import {makePopulation} from '../fixtures/make-population.js'
import {mixtureItems, strangers, supersededBucketItems, twiceItems} from '../fixtures/mixture.js'
import {GENERATIONS, itemsOf} from '../fixtures/old-table.js'

const population = makePopulation({entities: 30})

/** How many items of each kind, type and generation. */
function tally(items: readonly Item[], options = {}): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items) {
    const found = classifyItem(item, options)
    const name = found.kind === 'unknown' ? 'unknown' : `${found.kind} ${found.type}`
    const key = found.kind === 'old' ? `${name} ${found.generation}` : name
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

const {entities, configs, buckets, events} = population
const bucketLimits = buckets.flatMap(({limits}) => limits).length
const limitsOf = (levels: readonly string[]) =>
  configs.filter(({scope}) => levels.includes(scope.level)).flatMap(({limits}) => limits).length
const usage = itemsOf(4, population).filter(({SK}) => SK && 'S' in SK && SK.S.startsWith('#USAGE#')).length

describe('items of the fixtures are classified', () => {
  it('1: nested maps', () => {
    expect(tally(itemsOf(1, population))).toEqual({
      'old entity 1': entities.length,
      'old limits 1': limitsOf(['entity']),
      'old bucket 1': bucketLimits,
      'old usage 1': usage,
      'old audit 1': events.filter(({entity}) => !entity.startsWith('$')).length,
      'old version 1': 1,
    })
  })

  it('2: flat, one item per limit', () => {
    expect(tally(itemsOf(2, population))).toEqual({
      'old entity 2': entities.length,
      'old limits 2': limitsOf(['entity', 'resource', 'system']),
      'old settings 2': 1,
      'old registry 2': 1,
      'old bucket 2': bucketLimits,
      'old usage 1': usage,
      'old audit 2': events.length,
      'old version 2': 1,
    })
  })

  it('3: composite buckets', () => {
    expect(tally(itemsOf(3, population))).toMatchObject({
      'old bucket 3': buckets.length,
      'old limits 2': limitsOf(['entity', 'resource', 'system']),
      'old version 3': 1,
    })
  })

  it('4: composite configurations', () => {
    expect(tally(itemsOf(4, population))).toEqual({
      'old entity 2': entities.length,
      'old limits 4': configs.length,
      'old registry 2': 1,
      'old registry 4': 1,
      'old bucket 4': buckets.length,
      'old usage 1': usage,
      'old audit 2': events.length,
      'old version 4': 1,
    })
  })

  it('5: namespaces; only the buckets are old', () => {
    expect(tally(itemsOf(5, population))).toEqual({
      'old bucket 5': buckets.length,
      'current entity': entities.length,
      'current limits': configs.length,
      'current registry': 2,
      'current namespace': 2,
      'current usage': usage,
      'current audit': events.length,
      'current version': 1,
      'current settings': 1,
    })
  })

  it('6: nothing is old, except for the stray retention once the namespace default is registered (D-30)', () => {
    const items = itemsOf(6, population)
    expect(Object.keys(tally(items)).filter(name => !name.startsWith('current'))).toEqual([])
    const old = Object.entries(tally(items, {literalDefaultMoves: true})).filter(([name]) => name.startsWith('old'))
    expect(old).toEqual([['old settings 5', 1]])
  })

  it('mixtures contain old records of several generations and nothing unknown', () => {
    const mixed = tally([...mixtureItems(population), ...supersededBucketItems(population)])
    expect(mixed).not.toHaveProperty('unknown')
    for (const generation of [1, 2, 3, 4]) expect(mixed[`old bucket ${generation}`]).toBeGreaterThan(0)
    const twice = tally(twiceItems(population))
    expect(twice['old bucket 4']).toBe(twice['old bucket 5'])
  })
})

it('treats items of unknown shape as unknown', () => {
  expect(strangers.map(item => classifyItem(item).kind)).toEqual(strangers.map(() => 'unknown'))
})

it('treats an item with a damaged key or shape as unknown', () => {
  const all = GENERATIONS.flatMap(generation => itemsOf(generation, population))
  fc.assert(
    fc.property(fc.constantFrom(...all), fc.constantFrom('key', 'prefix', 'shape'), (item, how) => {
      expect(classifyItem(spoilt(item, how)).kind).toBe('unknown')
    }),
    {numRuns: runs(2000)},
  )
})

function spoilt(item: Item, how: 'key' | 'prefix' | 'shape'): Item {
  const {PK, SK} = item as {PK: {S: string}; SK: {S: string}}
  if (how === 'key') return {...item, SK: s(SK.S.replace('#', '#X'))}
  if (how === 'prefix') return {...item, PK: s(`a b/${PK.S}`)}
  // These have nothing that they could not lack.
  const isBare = /^#(RESOURCES|ENTITY_CONFIG|NAMESPACE|NSID)/.test(SK.S)
  return isBare ? {...item, PK: s(PK.S.replace('SYSTEM', 'SYSTEMS'))} : {PK, SK, something: s('else')}
}

it('never throws, whatever the keys', () => {
  const part = fc.constantFrom(
    '#',
    '/',
    'ENTITY',
    'BUCKET',
    'SYSTEM',
    'RESOURCE',
    'AUDIT',
    'LIMIT',
    'CONFIG',
    'USAGE',
    '_',
    'default',
    'a',
    '0',
    '',
  )
  const text = fc.array(part, {maxLength: 8}).map(parts => parts.join(''))
  fc.assert(
    fc.property(text, text, (PK, SK) => {
      expect(['current', 'unknown', 'old']).toContain(
        classifyItem({PK: s(PK), SK: s(SK), b_a_tk: n(1), l_a_cp: n(1)}).kind,
      )
    }),
  )
})

describe('the target key of a record', () => {
  it('is a current key, and an item of that kind under it is current', () => {
    for (const generation of [1, 2, 3, 4, 5] satisfies Generation[]) {
      for (const item of itemsOf(generation, population)) {
        const found: ClassifiedRecord = classifyItem(item)
        if (found.kind !== 'old') continue
        const {PK, SK} = targetKey(found, FIXTURE_NAMESPACE)
        expect(PK.startsWith(found.type === 'version' ? '_/' : `${FIXTURE_NAMESPACE}/`)).toBe(true)
        const shape =
          found.type === 'bucket' ? {b_a_tk: n(1)} : found.type === 'limits' ? {config_version: n(1)} : itemFields(item)
        expect(classifyItem({...shape, PK: s(PK), SK: s(SK)})).toMatchObject({kind: 'current'})
      }
    }
  })

  it('contains the window type of the record', () => {
    const daily = itemsOf(4, population)
      .map(item => classifyItem(item))
      .find(found => found.kind === 'old' && found.type === 'usage' && found.window === 'daily')
    expect(daily?.kind === 'old' && targetKey(daily, 'n1').SK).toMatch(/T00:00:00Z#daily$/)
  })
})

function itemFields(item: Item): Item {
  const {data, ...rest} = item
  return data && 'M' in data ? {...data.M, ...rest} : rest
}

it('treats the migration record and everything that zael writes as current', () => {
  const {PK, SK} = migrationRecordKey
  expect(classifyItem({PK: s(PK), SK: s(SK)})).toEqual({kind: 'current', type: 'migration', namespace: '_'})
  const config = encodeConfig({
    namespace: 'n1',
    scope: {level: 'system'},
    limits: [],
    onUnavailable: 'allow',
    auditRetentionDays: undefined,
  })
  expect(decodeConfig(config)).toMatchObject({limits: [], onUnavailable: 'allow'})
  expect(classifyItem(config)).toEqual({kind: 'current', type: 'settings', namespace: 'n1'})
  const day = {
    namespace: 'n1',
    entity: 'e',
    resource: 'r',
    window: 'daily',
    start: '2026-01-01T00:00:00Z',
    tokens: new Map(),
    totalEvents: 1,
    ttlSeconds: undefined,
  } as const
  expect(classifyItem(encodeUsage(day))).toEqual({kind: 'current', type: 'usage', namespace: 'n1'})
})

it('moves data under the id `default` only when the namespace of that name has another id', () => {
  const stub = retentionStub(population)
  expect(classifyItem(stub)).toEqual({kind: 'current', type: 'settings', namespace: 'default'})
  expect(classifyItem(stub, {literalDefaultMoves: true})).toEqual({
    kind: 'old',
    generation: 5,
    namespace: 'default',
    type: 'settings',
    settings: 'system',
  })
})

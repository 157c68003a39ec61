import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {WINDOWS, windowStart} from '../../src/lib/core/window.js'
import {integerOf, isoSeconds} from '../../src/lib/schema/attribute-value.js'
import {fromJson, toJson} from '../../src/lib/schema/json-attribute.js'
import {keys, type ParsedKey, parseKey} from '../../src/lib/schema/keys.js'

const namespace = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_-]{10}$/)
const entity = fc.stringMatching(/^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]{0,20}$/)
const resource = fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9_.\-/]{0,20}$/)
const shard = fc.integer({min: 0, max: 5000})
const window = fc.constantFrom(...WINDOWS)
const instant = fc.integer({min: 0, max: Date.UTC(2100, 0, 1)})

const anyKey: fc.Arbitrary<ParsedKey> = fc.oneof(
  fc.record({record: fc.constant('bucket' as const), namespace, entity, resource, shard}),
  fc.record({record: fc.constant('entity' as const), namespace, entity}),
  fc.record({
    record: fc.constant('entity-config' as const),
    namespace,
    entity,
    resource: fc.oneof(resource, fc.constant('_default_')),
  }),
  fc.record({record: fc.constant('resource-config' as const), namespace, resource}),
  fc.record({record: fc.constant('system-config' as const), namespace}),
  fc.constant({record: 'rollups' as const}),
  fc.tuple(namespace, resource, fc.constantFrom('daily', 'monthly'), instant).map(
    ([ns, res, type, at]): ParsedKey => ({
      ...{record: 'rollup-agenda', window: type, start: windowStart(type, at), of: {namespace: ns, resource: res}},
    }),
  ),
  fc.record({
    record: fc.constant('audit' as const),
    namespace,
    entity: fc.oneof(
      entity,
      fc.constant('$SYSTEM'),
      resource.map(name => `$RESOURCE:${name}`),
    ),
    eventId: fc.stringMatching(/^[0-9A-Z]{26}$/),
  }),
  fc.tuple(namespace, entity, resource, window, instant).map(
    ([ns, id, res, type, at]): ParsedKey => ({
      record: 'usage',
      namespace: ns,
      entity: id,
      resource: res,
      window: type,
      start: windowStart(type, at),
    }),
  ),
)

function build(key: ParsedKey) {
  switch (key.record) {
    case 'bucket':
      return keys.bucket(key.namespace, key.entity, key.resource, key.shard)
    case 'entity':
      return keys.entity(key.namespace, key.entity)
    case 'entity-config':
      return keys.entityConfig(key.namespace, key.entity, key.resource)
    case 'resource-config':
      return keys.resourceConfig(key.namespace, key.resource)
    case 'rollups':
      return keys.rollups()
    case 'rollup-agenda':
      return keys.rollupAgenda(key.window, key.start, key.of.namespace, key.of.resource)
    case 'system-config':
      return keys.systemConfig(key.namespace)
    case 'audit':
      return keys.audit(key.namespace, key.entity, key.eventId)
    case 'usage':
      return keys.usage(key.namespace, key.entity, key.resource, key.window, key.start)
    default:
      throw new Error(key.record)
  }
}

describe('keys', () => {
  it('S11 read back as their parts, with any names', () => {
    fc.assert(
      fc.property(anyKey, key => {
        expect(parseKey(build(key))).toEqual(key)
        expect(build(key).PK.startsWith(`${'namespace' in key ? key.namespace : '_'}/`)).toBe(true)
      }),
      {numRuns: 500},
    )
  })

  it('of the registry', () => {
    expect(parseKey(keys.namespaceByName('team-a'))).toEqual({record: 'namespace-by-name', name: 'team-a'})
    expect(parseKey(keys.namespaceById('-x'))).toEqual({record: 'namespace-by-id', id: '-x'})
    expect(parseKey(keys.version())).toEqual({record: 'version'})
    expect(parseKey(keys.resourceRegistry('n'))).toEqual({record: 'resource-registry', namespace: 'n'})
    expect(parseKey(keys.entityConfigRegistry('n'))).toEqual({record: 'entity-config-registry', namespace: 'n'})
    expect(parseKey(keys.provisioner('n'))).toEqual({record: 'provisioner', namespace: 'n'})
    const part = {record: 'provisioner-part', namespace: 'n', set: 'a-b_c', number: 12}
    expect(parseKey(keys.provisionerPart('n', 'a-b_c', 12))).toEqual(part)
  })

  it.each([
    ['', ''],
    ['ENTITY#a', '#META'],
    ['n/ENTITY#a', '#BUCKET#r'],
    ['n/ENTITY#a', '#LIMIT#r#tpm'],
    ['n/BUCKET#a#r#x', '#STATE'],
    ['n/BUCKET#a#r#0', '#META'],
    ['n/SYSTEM#', '#VERSION'],
    ['RESOURCE#openai/gpt-4', '#CONFIG'],
    ['/ENTITY#a', '#META'],
    ['n/ODD#a', '#META'],
  ])('rejects %o %o as a current key', (PK, SK) => {
    expect(parseKey({PK, SK})).toBeUndefined()
  })
})

describe('numbers', () => {
  it.each<[string, bigint]>([
    ['0', 0n],
    ['-12', -12n],
    ['12345678901234567890123', 12_345_678_901_234_567_890_123n],
    ['1.5', 1n],
    ['-1.5', -2n],
    ['-1.0', -1n],
    ['1E+3', 1000n],
    ['1.25E2', 125n],
    ['1.25e1', 12n],
    ['5E-1', 0n],
    ['-5E-3', -1n],
    ['.5', 0n],
    ['999999999999999', 999_999_999_999_999n],
    ['9007199254740993', 9_007_199_254_740_993n],
    ['0.9999999999999', 0n],
    ['0.999999999999999999999', 0n],
    ['-0.0000000000001', -1n],
    ['1E+23', 10n ** 23n],
  ])('%s is %s', (text, value) => expect(integerOf(text)).toBe(value))

  it('reject invalid text', () => expect(() => integerOf('x')).toThrow('not a number'))
})

describe('free-form data', () => {
  it('survives encoding and decoding', () => {
    // As in JSON text: without negative zeros, at any depth.
    const json = fc.jsonValue().map(value => JSON.parse(JSON.stringify(value)))
    fc.assert(
      fc.property(json, value => {
        expect(toJson(fromJson(value as never))).toEqual(value)
      }),
    )
  })

  it('writes instants as whole seconds in UTC', () =>
    expect(isoSeconds(1_700_000_000_999)).toBe('2023-11-14T22:13:20Z'))
})

import fc from 'fast-check'
import {type Limit, MAX_PERIOD_SECONDS, MAX_SLOTS, MAX_TOKENS, makeLimit} from '../../src/lib/core/limits/limit.js'
import {formatLimit} from '../../src/lib/core/limits/limit-text.js'
import {checkEntityId, checkLimitName, checkResourceName} from '../../src/lib/core/names.js'
import type {Manifest, ManifestEntity, ManifestScope} from '../../src/lib/manifest/manifest.js'
import type {Policies} from '../../src/lib/schema/config-record.js'

const isName = (check: (name: string) => string) => (name: string) => {
  try {
    return check(name) === name
  } catch {
    return false
  }
}

// Includes names that YAML would read as another type: numbers, dates, booleans, null.
const TRICKY = ['null', 'true', 'no', '007', '1e3', '0x1F', '1_000', '12:30:00', '2026-01-01', 'a.b-c', 'limits', 'y']
const nameBy = (check: (name: string) => string, pattern: RegExp) =>
  fc.oneof(fc.constantFrom(...TRICKY.filter(isName(check))), fc.stringMatching(pattern).filter(isName(check)))
const entityId = nameBy(checkEntityId, /^[a-zA-Z0-9][a-zA-Z0-9_.\-:@]{0,12}$/)
const resource = nameBy(checkResourceName, /^[a-zA-Z][a-zA-Z0-9_.\-/]{0,12}$/)
const limitName = nameBy(checkLimitName, /^[a-zA-Z][a-zA-Z0-9_.-]{0,6}$/)

const tokens = fc.oneof(fc.integer({min: 1, max: 5000}), fc.constantFrom(1000, 1_500_000, 10 ** 9, MAX_TOKENS))
const period = fc.oneof(
  fc.constantFrom(1, 60, 3600, 86_400, 90, MAX_PERIOD_SECONDS),
  fc.integer({min: 1, max: 10 ** 6}),
)
const rate: fc.Arbitrary<Limit> = fc.record({
  name: limitName,
  capacity: tokens,
  refillAmount: tokens,
  refillPeriodSeconds: period,
})
const inFlight: fc.Arbitrary<Limit> = fc
  .record({name: limitName, capacity: fc.integer({min: 1, max: MAX_SLOTS})})
  .map(limit => makeLimit({...limit, refillAmount: 0, refillPeriodSeconds: 1, inFlight: true}))
const limits: fc.Arbitrary<readonly Limit[]> = fc
  .uniqueArray(fc.oneof({weight: 4, arbitrary: rate}, {weight: 1, arbitrary: inFlight}), {
    selector: limit => limit.name,
    minLength: 1,
    maxLength: 3,
  })
  .map(list => list.sort((a, b) => (a.name < b.name ? -1 : 1)))

// Without a value, a policy is removed; the next level decides.
const policies: fc.Arbitrary<Policies> = fc.record(
  {
    access: fc.constantFrom(undefined, 'disabled' as const, 'enabled' as const),
    cascade: fc.constantFrom(undefined, true, false),
  },
  {requiredKeys: []},
)
const scope: fc.Arbitrary<ManifestScope> = fc.oneof(
  fc.record({limits, policies}),
  fc.record({limits: fc.constant([]), policies: policies.filter(({cascade}) => cascade !== undefined)}),
)

const mapOf = <T>(
  name: fc.Arbitrary<string>,
  value: fc.Arbitrary<T>,
  maxLength: number,
): fc.Arbitrary<Map<string, T>> =>
  fc.uniqueArray(fc.tuple(name, value), {selector: ([key]) => key, maxLength}).map(entries => new Map(entries))

// As in JSON text: no undefined, no -0, no lone surrogates.
const text = fc.string({unit: 'grapheme', maxLength: 12})
// DynamoDB does not allow empty names.
const key = fc.string({unit: 'grapheme', minLength: 1, maxLength: 12})
const json = fc.letrec<{value: never}>(tie => ({
  value: fc.oneof(
    {depthSize: 'small'},
    text,
    fc.integer(),
    fc.double({noNaN: true, noDefaultInfinity: true, min: -1e9, max: 1e9}).filter(each => Math.abs(each) > 1e-9),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), {maxLength: 3}),
    fc.dictionary(key, tie('value'), {maxKeys: 3, noNullPrototype: true}),
  ) as never,
})).value

const entity: fc.Arbitrary<Omit<ManifestEntity, 'parent'>> = fc.record(
  {
    name: text,
    cascade: fc.boolean(),
    metadata: fc.dictionary(key, json, {maxKeys: 3, noNullPrototype: true}) as fc.Arbitrary<Record<string, never>>,
    scopes: mapOf(fc.oneof(fc.constant('_default_'), resource), scope, 3),
  },
  {requiredKeys: ['scopes']},
)

/** Each entity may have an earlier one as its parent, which excludes cycles. */
export const anyManifest: fc.Arbitrary<Manifest> = fc
  .record({
    namespace: fc.constant('test'),
    system: fc.option(
      fc.record({limits, onUnavailable: fc.constantFrom(undefined, 'allow' as const, 'block' as const)}),
      {nil: undefined},
    ),
    resources: mapOf(resource, scope, 4),
    entities: mapOf(entityId, fc.tuple(entity, fc.option(fc.nat({max: 9}))), 6),
  })
  .map(({entities, ...rest}) => {
    const ids = [...entities.keys()]
    const linked = [...entities].map(([id, [stated, pick]], at): [string, ManifestEntity] => {
      if (pick === null) return [id, stated]
      return [id, {...stated, parent: at === 0 ? null : (ids[pick % at] as string)}]
    })
    return {...rest, entities: new Map(linked)}
  })

/** A manifest as a person would write it, in JSON: limits as texts or as mappings. */
export function write({namespace, system, resources, entities}: Manifest): string {
  const form = (list: readonly Limit[]) =>
    Object.fromEntries(
      list.map((limit, at) => {
        const {name, capacity, refillAmount, refillPeriodSeconds} = limit
        const mapping = {capacity, refill_amount: refillAmount, refill_period: refillPeriodSeconds}
        return [name, at % 2 === 0 || limit.inFlight ? formatLimit(limit).slice(name.length + 1) : mapping]
      }),
    )
  const flag = (key: string, value: boolean | undefined) => ({[key]: value ?? null})
  const stated = ({limits: list, policies: {...own}}: ManifestScope) => ({
    ...(list.length > 0 && {limits: form(list)}),
    ...('access' in own && flag('disabled', own.access && own.access === 'disabled')),
    ...('cascade' in own && flag('cascade', own.cascade)),
  })
  const formOf = (map: ReadonlyMap<string, ManifestScope>) =>
    Object.fromEntries([...map].map(([name, each]) => [name, stated(each)]))
  return JSON.stringify({
    namespace,
    system: system && {limits: form(system.limits), on_unavailable: system.onUnavailable},
    resources: formOf(resources),
    entities: Object.fromEntries(
      [...entities].map(([id, {scopes, ...record}]) => [id, {...record, resources: formOf(scopes)}]),
    ),
  })
}

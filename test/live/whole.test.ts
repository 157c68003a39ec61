import {afterEach, beforeEach, expect, it, vi} from 'vitest'
import {OUTPUT_FORMATS} from '../../src/lib/cli/output/output-format.js'
import {kindedRateOf} from '../../src/lib/core/calendar/kind-definition.js'
import type {Limit} from '../../src/lib/core/limits/limit.js'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {watchedBuckets} from '../../src/lib/live/document.js'
import {printSnapshot} from '../../src/lib/live/lines.js'
import {type Selection, SORT_KEYS} from '../../src/lib/live/model/model.js'
import {PackedReadings} from '../../src/lib/live/poll/packed-readings.js'
import {BucketPoller, type PollResult} from '../../src/lib/live/poll/poller.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {n, s} from '../../src/lib/schema/attribute-value.js'
import {attributes} from '../../src/lib/schema/attributes.js'
import {
  type BucketRecord,
  bucketIndexKeys,
  encodeBucket,
  freshWritePressure,
} from '../../src/lib/schema/bucket-record.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {newTenant, put, putBucket, type TestTenant} from '../repository/namespace-table.js'

const FILTERS = [
  {reversed: false, filter: ''},
  {reversed: true, filter: 'status:over'},
  {reversed: false, filter: '!gpt'},
]
const never = new AbortController().signal
const RATES = parseLimits(['rpm=100', 'tpm=10k'])

/** The item of one shard with these limits, of which so much was consumed. */
function itemOf(
  {namespace, nowMs}: TestTenant,
  id: string,
  limits: readonly Limit[],
  {consumed = 0, ...rest}: Partial<BucketRecord> & {consumed?: number} = {},
) {
  const [entity = '', resource = ''] = id.split('#')
  const consumedMilli = BigInt(consumed) * 1000n
  const states = limits.map(limit => {
    const rate = kindedRateOf(limit, nowMs)
    return [
      limit.name,
      {...rate, tokensMilli: rate.capacityMilli - consumedMilli, consumedMilli, remainder: 3n},
    ] as const
  })
  const state = {refilledAtMs: nowMs, limits: new Map([...states, ['wcu', freshWritePressure()] as const])}
  const family = {cascade: false, parent: undefined, ttlSeconds: undefined}
  return encodeBucket({namespace, entity, resource, shard: 0, shardCount: 1, ...family, state, ...rest})
}

interface BatchAnswer {
  readonly Responses: Readonly<Record<string, Record<string, unknown>[]>>
}

function sortAttributes(item: Record<string, unknown>): void {
  for (const name of Object.keys(item).sort()) {
    const value = item[name]
    delete item[name]
    item[name] = value
  }
}

/** Buckets of every kind that there is. */
async function fill(tenant: TestTenant): Promise<void> {
  const {namespace, nowMs} = tenant
  const {bucket, refusals} = attributes
  const refused = {[bucket.requests]: n(40), [refusals.requests]: n(7), [refusals.lastAt]: n(nowMs - 1000)}
  const family = {parent: 'team', cascade: true}
  const session = parseLimits(['session=10/5h!', 'rpm=100'])
  const unreadable = {namespace, entity: 'ghost', resource: 'gpt-4', shard: 0}
  await put(
    tenant,
    itemOf(tenant, 'ada#gpt-4', RATES, {consumed: 60, ttlSeconds: 1_900_000_000}),
    itemOf(tenant, 'ben#gpt-4', RATES, {consumed: 150}),
    itemOf(tenant, 'team#gpt-4', RATES, {consumed: 99}),
    itemOf(tenant, 'child-1#gpt-4', RATES, {...family, consumed: 5}),
    {...itemOf(tenant, 'child-2#gpt-4', RATES, family), [refusals.byParent]: n(3), [refusals.lastAt]: n(nowMs - 5)},
    itemOf(tenant, 'orphan#gpt-4', RATES, {...family, parent: 'nobody'}),
    {...itemOf(tenant, 'refused#gpt-4', RATES, {consumed: 9}), ...refused},
    itemOf(tenant, 'quota#gpt-4', session, {consumed: 4}),
    itemOf(
      tenant,
      'soft#gpt-4',
      RATES.map(limit => ({...limit, soft: true as const})),
      {consumed: 200},
    ),
    {...itemOf(tenant, 'off#gpt-4', RATES), [bucket.disabled]: s('x')},
    itemOf(tenant, 'open#gpt-4', RATES, {consumed: 300, bypassUntilMs: nowMs + 60_000}),
    itemOf(tenant, 'huge#gpt-4', parseLimits(['big=9000000000000/day']), {consumed: 1_234_567}),
    itemOf(tenant, 'ünïcode-日本#gpt-4', RATES),
    {...itemOf(tenant, 'incomplete#gpt-4', RATES), b_odd_tk: n(5), b_odd_tc: n(6)},
    {...wireKey(keys.bucket(namespace, 'ghost', 'gpt-4', 0)), b_rpm_tk: n(5), ...bucketIndexKeys(unreadable)},
  )
  await putBucket(tenant, {entity: 'many', resource: 'gpt-4', limits: RATES, shardCount: 4, consumed: 12})
  await putBucket(tenant, {entity: 'holes', resource: 'search', limits: RATES, shardCount: 8, shards: [0, 1, 5]})
  // The boost is over, and the bucket is shown under the limits of the resource.
  const limits = new NamespaceRepository(tenant, undefined)
  await limits.setLimits({level: 'resource', resource: 'search'}, parseLimits(['rpm=50']))
  await putBucket(tenant, {entity: 'boosted', resource: 'search', limits: RATES})
  const own = {level: 'entity', entity: 'boosted', resource: 'search'} as const
  await limits.setLimits(own, parseLimits(['rpm=400']), {until: new Date(tenant.nowMs + 1000)})
  tenant.nowMs += 2000
}

describeOnBoth('zael watch --once --all', {}, table => {
  let tenant: TestTenant
  let written = ''

  beforeEach(async () => {
    tenant = newTenant(table)
    await fill(tenant)
    // An engine returns attributes in any order, and the order of limits in a total follows from it.
    tenant.transport.after = (operation, output) => {
      if (operation === 'BatchGetItem')
        Object.values((output as BatchAnswer).Responses)
          .flat()
          .forEach(sortAttributes)
    }
  })
  afterEach(() => vi.restoreAllMocks())

  async function printed(result: PollResult, selection: Selection, format: (typeof OUTPUT_FORMATS)[number]) {
    written = ''
    const write = vi.spyOn(process.stdout, 'write').mockImplementation(text => {
      written += String(text)
      return true
    })
    // The two polls differ in their read units and calls.
    const lastPoll = {...result.lastPoll, readUnits: 1, calls: 1}
    const polled = {...result, lastPoll, units: new Map([['tpm', 'USD']]), problem: undefined}
    const watched = watchedBuckets(polled, tenant.nowMs + 700, selection, undefined)
    await printSnapshot(watched, {format, width: undefined, after: () => ({}), onBegin: () => {}})
    write.mockRestore()
    return written
  }

  /** A live view, which keeps its readings as they are, and a whole poll of the same buckets; both twice. */
  async function polls(): Promise<[live: PollResult, whole: PollResult][]> {
    const [live, whole] = [0, 1].map(() => new BucketPoller(tenant, {kind: 'namespace'})) as [
      BucketPoller,
      BucketPoller,
    ]
    for (const each of [live, whole]) await each.loadFacts(never)
    const first = [await live.poll(new Set(), never), await whole.pollAll(never)] as const
    tenant.nowMs += 2000
    await put(tenant, itemOf(tenant, 'ada#gpt-4', RATES, {consumed: 75}))
    await put(tenant, itemOf(tenant, 'child-1#gpt-4', RATES, {parent: 'team', cascade: true, consumed: 9}))
    return [[...first], [await live.poll(new Set(), never), await whole.pollAgain(first[1], never)]]
  }

  it('prints packed readings like live readings, in every format and order', async () => {
    for (const [live, whole] of await polls()) {
      expect(whole.readings).toBeInstanceOf(PackedReadings)
      expect(live.readings).not.toBeInstanceOf(PackedReadings)
      expect(whole.readings.size).toBe(17)
      expect(whole.known).toEqual({count: 17, isComplete: true, unreadable: 1})
      for (const [at, sort] of SORT_KEYS.entries())
        for (const [next, format] of OUTPUT_FORMATS.entries()) {
          const selection = {sort, ...(FILTERS[(at + next) % FILTERS.length] as (typeof FILTERS)[number])}
          const before = await printed(live, selection, format)
          expect(before).not.toBe('')
          expect(await printed(whole, selection, format)).toBe(before)
        }
    }
  })

  it('keeps every field of each reading', async () => {
    for (const [live, whole] of await polls())
      for (const {bucket, ...reading} of live.readings.values()) {
        const {bucket: packed, ...rest} = whole.readings.get(reading.id) ?? {bucket: undefined}
        expect(rest).toEqual(reading)
        const {entity, resource, shardCount, shards} = bucket
        expect(packed).toEqual({entity, resource, shardCount, shards})
      }
  })
})

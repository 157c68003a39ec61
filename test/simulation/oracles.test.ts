import {describe, expect, it} from 'vitest'
import {RateLimitExceeded, RequestTooLarge} from '../../src/lib/limiter/errors.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {encodeConfig} from '../../src/lib/schema/config-record.js'
import type {Change} from '../helpers/memory-table/table.js'
import {Answers} from './oracles/answers.js'
import {Books, Claim} from './oracles/books.js'
import {CACHE_PERIOD_MS, LimitsTimeline} from './oracles/limits-timeline.js'
import {RateBound} from './oracles/rate-bound.js'
import {Refills} from './oracles/refills.js'
import {UsageTruth} from './oracles/usage.js'
import {Verdicts} from './oracles/verdicts.js'
import {RESOURCE} from './scenario.js'
import {shardChange, type TableWrite, type Writer} from './world/table-writes.js'

const BUCKET = `ns/u0/${RESOURCE}`
const LIMITER: Writer = {kind: 'limiter', process: 0}

/** A bucket item with one limit of 10 tokens that regains one every second. */
function bucket(fields: {
  tk?: number
  tc?: number
  rf?: number
  shard?: number
  cp?: number
  mark?: string
  rq?: number
}): Item {
  const {tk = 10_000, tc = 0, rf = 0, shard = 0, cp = 10_000, mark, rq = 0} = fields
  return {
    PK: s(`ns/BUCKET#u0#${RESOURCE}#${shard}`),
    SK: s('#STATE'),
    rf: n(rf),
    rq: n(rq),
    b_rpm_tk: n(tk),
    b_rpm_tc: n(tc),
    b_rpm_cp: n(cp),
    b_rpm_ra: n(1000),
    b_rpm_rp: n(1000),
    ...(mark && {wn_0: s(mark)}),
  }
}

function write(
  atMs: number,
  images: readonly (readonly [Item | undefined, Item | undefined])[],
  writer = LIMITER,
): TableWrite {
  const changes = images.map(([before, after], at): Change => ({table: 'sim', sequence: at, atMs, before, after}))
  return {atMs, writer, changes, shards: changes.flatMap(change => shardChange(change) ?? [])}
}

function configure(capacity: number, atMs: number, kind: Writer['kind'] = 'operator'): TableWrite {
  const limits = [{name: 'rpm', capacity, refillAmount: 1, refillPeriodSeconds: 1}]
  const scope = {level: 'resource', resource: RESOURCE} as const
  const record = {namespace: 'ns', scope, limits, onUnavailable: undefined, auditRetentionDays: undefined}
  return write(atMs, [[undefined, encodeConfig(record)]], {kind, process: -2})
}

function judges() {
  const verdicts = new Verdicts(() => 0)
  const timeline = new LimitsTimeline(RESOURCE)
  timeline.observe(configure(10, 0, 'setup'))
  const found = () => verdicts.violations.map(({oracle}) => oracle)
  return {verdicts, timeline, found}
}

describe('S1: the rate bound', () => {
  it('allows capacity + refill to the millitoken, and no more', () => {
    const {verdicts, timeline, found} = judges()
    const rates = new RateBound(timeline, verdicts, () => 0)
    rates.observe(write(1000, [[undefined, bucket({tc: 10_000})]]))
    rates.observe(write(1500, [[bucket({tc: 10_000}), bucket({tc: 10_500})]]))
    expect(found()).toEqual([])
    rates.observe(write(1500, [[bucket({tc: 10_500}), bucket({tc: 10_501})]]))
    expect(found()).toEqual(['S1-rate'])
  })

  it('gives returns back, but not beyond the capacity', () => {
    const {verdicts, timeline, found} = judges()
    const rates = new RateBound(timeline, verdicts, () => 0)
    rates.observe(write(1000, [[undefined, bucket({tc: 4000})]]))
    rates.observe(write(9000, [[bucket({tc: 4000}), bucket({tc: 0})]]))
    rates.observe(write(9000, [[bucket({tc: 0}), bucket({tc: 10_000})]]))
    expect(found()).toEqual([])
    rates.observe(write(9000, [[bucket({tc: 10_000}), bucket({tc: 11_000})]]))
    expect(found()).toEqual(['S1-rate'])
  })

  it('goes by lowered limits once the cache period is over', () => {
    const {verdicts, timeline, found} = judges()
    const rates = new RateBound(timeline, verdicts, () => 0)
    rates.observe(write(1000, [[undefined, bucket({tc: 1000})]]))
    timeline.observe(configure(2, 2000))
    rates.observe(write(30_000, [[bucket({tc: 1000}), bucket({tc: 9000})]]))
    expect(found()).toEqual([])
    const lateMs = 2000 + CACHE_PERIOD_MS + 100_000
    rates.tick(lateMs)
    rates.observe(write(lateMs, [[bucket({tc: 9000}), bucket({tc: 12_000})]]))
    expect(found()).toEqual(['S1-rate'])
  })
})

describe('S3, S6, S7, S8, S9: single writes', () => {
  const judge = (...writes: TableWrite[]) => {
    const {verdicts, timeline, found} = judges()
    const refills = new Refills(timeline, verdicts, false)
    for (const each of writes) {
      timeline.observe(each)
      refills.observe(each)
    }
    return found()
  }

  it('knows what the time has earned', () => {
    const before = bucket({tk: 1000, rf: 1000})
    expect(judge(write(2000, [[before, bucket({tk: 1500, rf: 1500})]]))).toEqual([])
    expect(judge(write(2000, [[before, bucket({tk: 1501, rf: 1500})]]))).toEqual(['S3-credit'])
  })

  it('finds fractions that are lost', () => {
    const before = bucket({tk: 1000, rf: 1000})
    expect(judge(write(2000, [[before, bucket({tk: 500, tc: 1000, rf: 1500})]]))).toEqual([])
    expect(judge(write(2000, [[before, bucket({tk: 499, tc: 1000, rf: 1500})]]))).toEqual(['S3-lost'])
  })

  it('finds a refill instant that moves back', () => {
    expect(judge(write(2000, [[bucket({rf: 1000}), bucket({rf: 999})]]))).toEqual(['S7-refill-instant'])
  })

  it('finds a write that is applied twice, as a charge or as a return', () => {
    const [clean, marked] = [bucket({mark: 'a'}), bucket({tk: 9000, tc: 1000, mark: 'x'})]
    expect(judge(write(1, [[clean, marked]]), write(2, [[clean, marked]]))).toEqual(['S6-charged-twice'])
    const returned = bucket({tk: 11_000, tc: -1000, mark: 'x'})
    expect(judge(write(1, [[clean, returned]]), write(2, [[clean, returned]]))).toEqual(['S6-returned-twice'])
  })

  it('finds a split that creates tokens', () => {
    const donor = bucket({tk: 8000, rf: 1})
    const half = (shard: number) => bucket({tk: 4000, rf: 1, shard})
    expect(
      judge(
        write(2, [
          [donor, half(0)],
          [undefined, half(1)],
        ]),
      ),
    ).toEqual([])
    expect(
      judge(
        write(2, [
          [donor, bucket({tk: 4001, rf: 1})],
          [undefined, half(1)],
        ]),
      ),
    ).toEqual(['S8-split'])
  })

  it('finds a request that was admitted by limits of long ago', () => {
    const admitted = (atMs: number) => write(atMs, [[bucket({}), bucket({tk: 9000, tc: 1000, rq: 1})]])
    expect(judge(configure(5, 1000), admitted(1000 + CACHE_PERIOD_MS))).toEqual([])
    expect(judge(configure(5, 1000), admitted(1001 + CACHE_PERIOD_MS))).toEqual(['S9-stale-limits'])
  })
})

describe('S5, S6: the books', () => {
  const judge = (consumedMilli: number, ...claims: (readonly [low: bigint, high: bigint])[]) => {
    const {verdicts, found} = judges()
    const books = new Books(verdicts)
    books.observe(write(1, [[undefined, bucket({tc: consumedMilli})]]))
    for (const [low, high] of claims) books.open(new Claim(BUCKET, 'rpm', low, high))
    books.check({checkHigh: true})
    return found()
  }

  it('compares counters with what callers were told, within what they cannot know', () => {
    expect(judge(3000, [3000n, 3000n])).toEqual([])
    expect(judge(3000, [1000n, 1000n], [0n, 2000n])).toEqual([])
    expect(judge(2999, [3000n, 3000n])).toEqual(['S6-counted-less'])
    expect(judge(3001, [3000n, 3000n])).toEqual(['S5-counted-more'])
  })

  it('lets an unknown return take back no more than was charged', () => {
    const claim = new Claim(BUCKET, 'rpm', 2000n)
    claim.mayAdd(-3000n)
    expect([claim.low, claim.high]).toEqual([0n, 2000n])
  })
})

describe('L2, L3, L4, L6: what is told', () => {
  const refusal = (ms: number) => new RateLimitExceeded([], ms)
  const judge = (tokens: number, error: RateLimitExceeded | RequestTooLarge) => {
    const {verdicts, timeline, found} = judges()
    new Answers(timeline, verdicts).refused([BUCKET], {rpm: tokens}, error, 1)
    return found()
  }

  it('knows which requests are too large, and that a wait below the capacity ends', () => {
    expect(judge(10, refusal(5))).toEqual([])
    // The error itself states no infinite wait; one that did would be found.
    const endless = Object.defineProperty(refusal(5), 'retryAfterMs', {value: Number.POSITIVE_INFINITY})
    expect(judge(10, endless)).toEqual(['L2-infinite'])
    expect(judge(10, refusal(0))).toEqual(['L2-not-positive'])
    expect(judge(11, refusal(5))).toEqual(['L3-oversized'])
    const tooLarge = new RequestTooLarge('u0', RESOURCE, 'rpm', 11, 10)
    expect([judge(11, tooLarge), judge(10, tooLarge)]).toEqual([[], ['L3-too-large']])
  })

  it('takes an error that means nothing to callers for a violation', () => {
    const {verdicts, timeline, found} = judges()
    const answers = new Answers(timeline, verdicts)
    answers.failed('acquire', refusal(5))
    expect(found()).toEqual([])
    answers.failed('acquire', new Error('a bucket that was charged is not there'))
    expect(found()).toEqual(['L6-internal-error'])
  })

  it('finds usage that was not counted', () => {
    const {verdicts, found} = judges()
    const usage = new UsageTruth(verdicts)
    usage.observe(write(1, [[undefined, bucket({tc: 3000})]]))
    usage.check([], new Set([BUCKET]))
    expect(found()).toEqual([])
    usage.check([], new Set())
    expect(found()).toEqual(['L4-usage'])
  })
})

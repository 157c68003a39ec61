import {describe, expect, it} from 'vitest'
import type {LimitState} from '../../src/lib/core/limits/limit-state.js'
import {ValidationFailed} from '../../src/lib/dynamo/errors.js'
import {RateLimitExceeded, RequestTooLarge} from '../../src/lib/limiter/refusal/errors.js'
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

/** A bucket item with one limit of 10 tokens that refills one token per second. */
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

function configure(
  capacity: number,
  atMs: number,
  kind: Writer['kind'] = 'operator',
  refillPeriodSeconds = 1,
): TableWrite {
  const limits = [{name: 'rpm', capacity, refillAmount: 1, refillPeriodSeconds}]
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
  it('allows exactly capacity + refill, to the millitoken', () => {
    const {verdicts, timeline, found} = judges()
    const rates = new RateBound(timeline, verdicts, () => 0)
    rates.observe(write(1000, [[undefined, bucket({tc: 10_000})]]))
    rates.observe(write(1500, [[bucket({tc: 10_000}), bucket({tc: 10_500})]]))
    expect(found()).toEqual([])
    rates.observe(write(1500, [[bucket({tc: 10_500}), bucket({tc: 10_501})]]))
    expect(found()).toEqual(['S1-rate'])
  })

  it('lets a bucket that was only read start full by the limits of its first use', () => {
    const {verdicts, timeline, found} = judges()
    const rates = new RateBound(timeline, verdicts, () => 0)
    expect(rates.left(BUCKET, 'rpm', 1000)).toBe(10_000n)
    timeline.observe(configure(20, 2000, 'operator', 3600))
    const atMs = 2000 + CACHE_PERIOD_MS + 1
    rates.observe(write(atMs, [[undefined, bucket({tc: 20_000})]]))
    expect(found()).toEqual([])
    rates.observe(write(atMs, [[bucket({tc: 20_000}), bucket({tc: 20_001})]]))
    expect(found()).toEqual(['S1-rate'])
  })

  it('credits refunds, but not beyond the capacity', () => {
    const {verdicts, timeline, found} = judges()
    const rates = new RateBound(timeline, verdicts, () => 0)
    rates.observe(write(1000, [[undefined, bucket({tc: 4000})]]))
    rates.observe(write(9000, [[bucket({tc: 4000}), bucket({tc: 0})]]))
    rates.observe(write(9000, [[bucket({tc: 0}), bucket({tc: 10_000})]]))
    expect(found()).toEqual([])
    rates.observe(write(9000, [[bucket({tc: 10_000}), bucket({tc: 11_000})]]))
    expect(found()).toEqual(['S1-rate'])
  })

  it('credits time at the stored rate, if it was ever configured', () => {
    const slower = (kind: Writer['kind']) => configure(10, 2000, kind, 60)
    const lateMs = 200_000
    const judge = (period: number) => {
      const {verdicts, timeline, found} = judges()
      const rates = new RateBound(timeline, verdicts, () => 0)
      const stored = (tc: number): Item => ({...bucket({tc}), b_rpm_rp: n(period)})
      rates.observe(write(1000, [[undefined, stored(10_000)]]))
      timeline.observe(slower('python'))
      rates.tick(2000 + CACHE_PERIOD_MS + 1)
      rates.observe(write(2000 + CACHE_PERIOD_MS + 1, [[stored(10_000), stored(20_000)]]))
      rates.observe(write(lateMs, [[stored(20_000), stored(30_000)]]))
      return found()
    }
    expect(judge(1000)).toEqual([])
    expect(judge(999)).toEqual(['S1-rate'])
  })

  it('waits until the shard with the whole debt has repaid it', () => {
    const {verdicts, timeline} = judges()
    const rates = new RateBound(timeline, verdicts, () => 0)
    rates.observe(write(1000, [[undefined, bucket({})]]))
    rates.noteForced(BUCKET, 'rpm', 3000n, 1000)
    expect(rates.fillTimeMs(BUCKET, 1000)).toBe(13_000)
    rates.observe(write(1000, [[undefined, bucket({shard: 1})]]))
    expect(rates.fillTimeMs(BUCKET, 1000)).toBe(16_000)
  })

  it('allows once for clocks that are ahead, even if one gets ahead later', () => {
    const {verdicts, timeline, found} = judges()
    let spreadMs = 1000
    const rates = new RateBound(timeline, verdicts, () => spreadMs)
    rates.observe(write(1000, [[undefined, bucket({tc: 11_000})]]))
    spreadMs = 3000
    rates.observe(write(1000, [[bucket({tc: 11_000}), bucket({tc: 13_000})]]))
    expect(found()).toEqual([])
    rates.observe(write(1000, [[bucket({tc: 13_000}), bucket({tc: 13_001})]]))
    expect(found()).toEqual(['S1-rate'])
  })

  it('allows for clocks that are ahead by the current rate, even if limits were lower in between', () => {
    const judge = (more: number) => {
      const {verdicts, timeline, found} = judges()
      const rates = new RateBound(timeline, verdicts, () => 1000)
      const stored = (tc: number, period: number): Item => ({...bucket({tc}), b_rpm_rp: n(period)})
      rates.observe(write(1000, [[undefined, stored(0, 1000)]]))
      timeline.observe(configure(10, 2000, 'operator', 60))
      rates.observe(write(2000, [[stored(0, 1000), stored(0, 60_000)]]))
      rates.tick(2000 + CACHE_PERIOD_MS + 1)
      const raisedMs = 200_000
      timeline.observe(configure(10, raisedMs, 'operator', 2))
      rates.observe(write(raisedMs, [[stored(0, 60_000), stored(10_000, 2000)]]))
      rates.observe(write(raisedMs, [[stored(10_000, 2000), stored(10_000 + more, 2000)]]))
      return found()
    }
    expect(judge(500)).toEqual([])
    expect(judge(501)).toEqual(['S1-rate'])
  })

  it('counts overflow taken by another client only if it does not come back', () => {
    const python: Writer = {kind: 'python', process: -2}
    const judge = (more: number, writer: Writer) => {
      const {verdicts, timeline, found} = judges()
      const rates = new RateBound(timeline, verdicts, () => 0)
      rates.observe(write(1000, [[undefined, bucket({tk: 8000, tc: 2000, rf: 1000})]]))
      // Full after two seconds, then three overflow: of four taken, three come back.
      const taken = bucket({tk: 4000, tc: 6000, rf: 1000})
      rates.observe(write(6000, [[bucket({tk: 8000, tc: 2000, rf: 1000}), taken]], writer))
      rates.observe(write(6000, [[taken, bucket({tk: 0, tc: 6000 + more, rf: 6000})]]))
      return found()
    }
    expect(judge(9000, python)).toEqual([])
    expect(judge(9001, python)).toEqual(['S1-rate'])
    expect(judge(6001, LIMITER)).toEqual(['S1-rate'])
  })

  it('applies lowered limits after the cache period', () => {
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

  it('applies the stored limits if a process may use them, and no further', () => {
    const judge = (consumed: number, byStored: Iterable<string>) => {
      const {verdicts, timeline, found} = judges()
      const rates = new RateBound(timeline, verdicts, () => 0)
      rates.observe(write(1000, [[undefined, bucket({tc: 0})]]))
      timeline.observe(configure(2, 2000, 'python'))
      const lateMs = 2000 + CACHE_PERIOD_MS + 100_000
      rates.tick(lateMs)
      rates.observe(write(lateMs, [[bucket({tc: 0}), bucket({tc: consumed})]]), new Set(byStored))
      return found()
    }
    expect(judge(10_000, [BUCKET])).toEqual([])
    expect(judge(10_001, [BUCKET])).toEqual(['S1-rate'])
    expect(judge(10_000, [])).toEqual(['S1-rate'])
  })

  it('keeps a balance when limits are updated, whatever was configured in between', () => {
    const judge = (more: number) => {
      const {verdicts, timeline, found} = judges()
      const rates = new RateBound(timeline, verdicts, () => 0)
      rates.observe(write(1000, [[undefined, bucket({tc: 1000})]]))
      timeline.observe(configure(2, 2000, 'python'))
      const raisedMs = 2000 + CACHE_PERIOD_MS + 100_000
      rates.tick(raisedMs)
      timeline.observe(configure(6, raisedMs))
      rates.observe(write(raisedMs, [[bucket({tc: 1000}), bucket({tc: 1000, cp: 6000})]]))
      rates.observe(write(raisedMs, [[bucket({tc: 1000, cp: 6000}), bucket({tc: 7000 + more, cp: 6000})]]))
      return found()
    }
    expect(judge(0)).toEqual([])
    expect(judge(1)).toEqual(['S1-rate'])
  })
})

describe('S3, S6, S7, S8, S9: single writes', () => {
  const judge = (...writes: TableWrite[]) => judgeProcesses({}, ...writes)
  const judgeProcesses = (options: {isAllCached?: boolean}, ...writes: TableWrite[]) => {
    const {verdicts, timeline, found} = judges()
    const refills = new Refills(timeline, verdicts, options)
    for (const each of writes) {
      timeline.observe(each)
      refills.observe(each)
    }
    return found()
  }

  it('knows the refill of a time span', () => {
    const before = bucket({tk: 1000, rf: 1000})
    expect(judge(write(2000, [[before, bucket({tk: 1500, rf: 1500})]]))).toEqual([])
    expect(judge(write(2000, [[before, bucket({tk: 1501, rf: 1500})]]))).toEqual(['S3-credit'])
  })

  it('finds lost fractions', () => {
    const before = bucket({tk: 1000, rf: 1000})
    expect(judge(write(2000, [[before, bucket({tk: 500, tc: 1000, rf: 1500})]]))).toEqual([])
    expect(judge(write(2000, [[before, bucket({tk: 499, tc: 1000, rf: 1500})]]))).toEqual(['S3-lost'])
  })

  it('finds a refill instant that moves back', () => {
    expect(judge(write(2000, [[bucket({rf: 1000}), bucket({tk: 9999, rf: 999})]]))).toEqual(['S7-refill-instant'])
    const dayMs = 86_400_000
    const ahead = bucket({tk: 5000, rf: 1000 + dayMs})
    expect(judge(write(1000, [[ahead, bucket({tk: 0, rf: 1000})]]))).toEqual(['S7-refill-instant'])
    // More than a day ahead, it is set back, together with its credit.
    expect(judge(write(999, [[ahead, bucket({tk: 0, rf: 999})]]))).toEqual([])
    expect(judge(write(999, [[ahead, bucket({tk: 1, rf: 999})]]))).toEqual(['S3-credit'])
  })

  it('loses nothing by a charge after an overflow', () => {
    const [full, charged] = [bucket({tk: 10_000, rf: 1000}), bucket({tk: 8000, tc: 2000, rf: 1000})]
    const taken = (tk: number) => write(20_156, [[charged, bucket({tk, tc: 3000, rf: 20_156})]])
    const lateCharge = [write(1, [[undefined, full]]), write(20_000, [[full, charged]])]
    expect(judge(...lateCharge, taken(7156))).toEqual([])
    expect(judge(...lateCharge, taken(7156 - 4126))).toEqual(['S3-lost'])
    const earlyCharge = [write(1, [[undefined, full]]), write(2000, [[full, charged]])]
    expect(judge(...earlyCharge, taken(9000 - 4126))).toEqual(['S3-lost'])
  })

  it('allows a full limit to lose the refill of 3.5 s and a 16th of its capacity', () => {
    const before = bucket({tk: 9900, rf: 1000})
    const taken = (tk: number) => write(1100, [[before, bucket({tk, tc: 1000, rf: 1100})]])
    expect(judge(taken(4875))).toEqual([])
    expect(judge(taken(4874))).toEqual(['S3-lost'])
  })

  it('finds a write that is applied twice, as a charge or as a refund', () => {
    const [clean, marked] = [bucket({mark: 'a'}), bucket({tk: 9000, tc: 1000, mark: 'x'})]
    expect(judge(write(1, [[clean, marked]]), write(2, [[clean, marked]]))).toEqual(['S6-charged-twice'])
    const returned = bucket({tk: 11_000, tc: -1000, mark: 'x'})
    expect(judge(write(1, [[clean, returned]]), write(2, [[clean, returned]]))).toEqual(['S6-returned-twice'])
    // At once, so that the mark in the slot stays; the marks of other writers prove nothing.
    const again = [marked, bucket({tk: 8000, tc: 2000, mark: 'x'})] as const
    expect(judge(write(1, [[clean, marked]]), write(2, [again]))).toEqual(['S6-charged-twice'])
    const python: Writer = {kind: 'python', process: -2}
    expect(judge(write(1, [[clean, marked]]), write(2, [again], python))).toEqual([])
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

  it('finds a request admitted by outdated limits', () => {
    const first = write(500, [[bucket({}), bucket({tk: 9000, tc: 1000, rq: 1})]])
    const second = (atMs: number) =>
      write(atMs, [[bucket({tk: 9000, tc: 1000, rq: 1}), bucket({tk: 8000, tc: 2000, rq: 2})]])
    expect(judge(configure(5, 1000), first, second(1000 + CACHE_PERIOD_MS))).toEqual([])
    expect(judge(configure(5, 1000), first, second(1001 + CACHE_PERIOD_MS))).toEqual(['S9-stale-limits'])
    expect(judge(configure(5, 1000), second(1001 + CACHE_PERIOD_MS))).toEqual([])
    const writes = [configure(5, 1000), first, second(1001 + CACHE_PERIOD_MS)]
    expect(judgeProcesses({isAllCached: false}, ...writes)).toEqual([])
  })
})

describe('S5, S6: the books', () => {
  const judge = (consumedMilli: number, ...claims: (readonly [low: bigint, high: bigint])[]) => {
    const {verdicts, found} = judges()
    const books = new Books(verdicts)
    books.observe(write(1, [[undefined, bucket({tc: consumedMilli})]]))
    for (const [low, high] of claims) books.open(new Claim(BUCKET, 'rpm', low, high))
    books.check({checkHigh: true, returned: []})
    return found()
  }

  it('compares counters with the reported charges, within the bounds of unknown outcomes', () => {
    expect(judge(3000, [3000n, 3000n])).toEqual([])
    expect(judge(3000, [1000n, 1000n], [0n, 2000n])).toEqual([])
    expect(judge(2999, [3000n, 3000n])).toEqual(['S6-counted-less'])
    expect(judge(3001, [3000n, 3000n])).toEqual(['S5-counted-more'])
  })

  it('knows the limits of a bucket of one shard', () => {
    const books = new Books(judges().verdicts)
    const isThere = () => books.isThere(BUCKET, 'rpm')
    expect(isThere()).toBe(false)
    books.observe(write(1, [[undefined, bucket({})]]))
    expect([isThere(), books.isThere(BUCKET, 'tpm')]).toEqual([true, false])
    books.observe(write(2, [[bucket({}), undefined]]))
    expect(isThere()).toBe(false)
    books.observe(write(3, [[undefined, bucket({})]]))
    books.observe(write(4, [[undefined, bucket({shard: 1})]]))
    expect(isThere()).toBe(false)
  })

  it('allows a refund while one of several shards is gone, but not once all are', () => {
    const books = new Books(judges().verdicts)
    const mayBeReturned = () => books.mayBeReturned(BUCKET, 'rpm', 0)
    books.observe(write(1, [[undefined, bucket({})]]))
    books.observe(write(2, [[undefined, bucket({shard: 1})]]))
    books.observe(write(3, [[bucket({shard: 1}), undefined]]))
    expect([books.incarnation(BUCKET, 'rpm'), mayBeReturned()]).toEqual([1, true])
    books.observe(write(4, [[bucket({}), undefined]]))
    expect([books.incarnation(BUCKET, 'rpm'), mayBeReturned()]).toEqual([2, false])
    expect(books.mayBeReturned(BUCKET, 'rpm', 2)).toBe(true)
  })

  it('bounds an unknown refund by the charge', () => {
    const claim = new Claim(BUCKET, 'rpm', 2000n)
    claim.mayAdd(-3000n)
    expect([claim.least, claim.high]).toEqual([0n, 2000n])
  })

  it('lets an unknown refund undo an earlier accepted charge that is written later', () => {
    const claim = new Claim(BUCKET, 'tpm', 3000n)
    claim.mayAdd(1000n)
    claim.mayAdd(-4000n)
    // The charge is written: it is certain now.
    claim.high -= 1000n
    claim.add(1000n)
    expect([claim.least, claim.high]).toEqual([0n, 4000n])
  })
})

describe('L2, L3, L4, L6: responses', () => {
  const refusal = (ms: number | null) => new RateLimitExceeded([], ms)
  const judge = (tokens: number, error: RateLimitExceeded | RequestTooLarge) => {
    const {verdicts, timeline, found} = judges()
    new Answers(timeline, verdicts).refused([BUCKET], {rpm: tokens}, error, 1)
    return found()
  }

  it('knows which requests are too large, and that a wait below the capacity ends', () => {
    expect(judge(10, refusal(5))).toEqual([])
    expect(judge(10, refusal(null))).toEqual(['L2-infinite'])
    expect(judge(10, refusal(0))).toEqual(['L2-not-positive'])
    expect(judge(11, refusal(5))).toEqual(['L3-oversized'])
    const tooLarge = new RequestTooLarge('u0', RESOURCE, 'rpm', 11, 10)
    expect([judge(11, tooLarge), judge(10, tooLarge)]).toEqual([[], ['L3-too-large']])
  })

  it('lets only the first refusal of a process use the stored limits', () => {
    const {verdicts, timeline, found} = judges()
    const answers = new Answers(timeline, verdicts, () => 12_000n)
    answers.refused([BUCKET], {rpm: 12}, refusal(5), 1, () => true)
    expect(found()).toEqual([])
    answers.refused([BUCKET], {rpm: 13}, refusal(5), 1, () => true)
    answers.refused([BUCKET], {rpm: 12}, refusal(5), 1, () => false)
    expect(found()).toEqual(['L3-oversized', 'L3-oversized'])
  })

  it('lets a parent that could not be read be absent from a refusal', () => {
    const {verdicts, timeline, found} = judges()
    const answers = new Answers(timeline, verdicts)
    const named = new RateLimitExceeded([{...({} as LimitState), entity: 'u0', resource: RESOURCE}], 5)
    answers.refused([BUCKET], {rpm: 11}, refusal(5), 1, () => false, true)
    expect(found()).toEqual([])
    answers.refused([BUCKET], {rpm: 11}, named, 1, () => false, true)
    expect(found()).toEqual(['L3-oversized'])
  })

  it('reports internal errors that reach callers', () => {
    const {verdicts, timeline, found} = judges()
    const answers = new Answers(timeline, verdicts)
    answers.failed('acquire', refusal(5))
    expect(found()).toEqual([])
    answers.failed('acquire', new Error('a bucket that was charged is not there'))
    answers.failed('adjust', new ValidationFailed('UpdateItem'))
    expect(found()).toEqual(['L6-internal-error', 'L6-internal-error'])
  })

  it('finds uncounted usage', () => {
    const {verdicts, found} = judges()
    const usage = new UsageTruth(verdicts)
    usage.observe(write(1, [[undefined, bucket({tc: 3000})]]))
    usage.check([], new Set([BUCKET]), new Map())
    expect(found()).toEqual([])
    usage.check([], new Set(), new Map())
    expect(found()).toEqual(['L4-usage'])
  })
})

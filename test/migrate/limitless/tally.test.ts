import {describe, expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {isCoveredBy, LimitlessTally} from '../../../src/lib/migrate/limitless/tally.js'

const limits = (...texts: string[]) => texts.map(text => parseLimit(text))

/** Adds so many buckets with these limits. */
function add(
  tally: LimitlessTally,
  count: number,
  texts: readonly string[] | undefined,
  name = texts?.join() ?? 'odd',
) {
  const same = texts && limits(...texts)
  for (let at = 0; at < count; at++)
    tally.add({namespace: 'ns', namespaceName: 'acme', entity: `${name}-${at}`, resource: 'gpt-4', limits: same})
}

function summary(...sets: readonly [count: number, ...texts: string[]][]) {
  const tally = new LimitlessTally()
  for (const [count, ...texts] of sets) add(tally, count, texts)
  return tally.limitless.resources[0]
}

describe('the limits of most buckets', () => {
  it('belong to the resource, and others are exceptions', () => {
    expect(summary([3, 'rpm=100/min'], [1, 'rpm=500/min'])).toMatchObject({
      buckets: 4,
      common: limits('rpm=100/min'),
      exceptions: 1,
      shownExceptions: [{entity: 'rpm=500/min-0', limits: limits('rpm=500/min')}],
    })
  })

  it('are empty if no two buckets have the same: limits of one entity are not for all', () => {
    expect(summary([1, 'rpm=100/min'], [1, 'rpm=500/min'])).toMatchObject({common: undefined, exceptions: 2})
    expect(summary([1, 'rpm=100/min'])).toMatchObject({common: undefined, exceptions: 1})
  })

  it('are the lower ones where two are equally common, in any order', () => {
    const [low, high] = [
      [2, 'rpm=100/min'],
      [2, 'rpm=500/min'],
    ] as const
    expect(summary([...low], [...high])?.common).toEqual(limits('rpm=100/min'))
    expect(summary([...high], [...low])?.common).toEqual(limits('rpm=100/min'))
  })

  it('are the more numerous ones where two are equally common, and cover a part of them', () => {
    const found = summary([2, 'rpm=100/min'], [2, 'rpm=100/min', 'tpm=1000/min'])
    expect(found).toMatchObject({common: limits('rpm=100/min', 'tpm=1000/min'), exceptions: 0})
  })

  it('stay the same while exceptions are written one after the other', () => {
    for (const left of [3, 2, 1, 0]) {
      const found = summary([3, 'rpm=100/min'], [left, 'rpm=500/min'])
      expect(found).toMatchObject({common: limits('rpm=100/min'), exceptions: left})
    }
  })
})

describe('a bucket', () => {
  it('is covered by the same limits, or more of them, and by no others', () => {
    const common = limits('rpm=100/min', 'tpm=1000/min')
    expect(isCoveredBy(common, common)).toBe(true)
    expect(isCoveredBy(limits('rpm=100/min'), common)).toBe(true)
    expect(isCoveredBy(limits('rpm=101/min'), common)).toBe(false)
    expect(isCoveredBy(limits('rph=100/h'), common)).toBe(false)
    expect(isCoveredBy(limits('rpm=100/min'), undefined)).toBe(false)
  })
})

describe('memory', () => {
  it('is bounded: further sets are exceptions, further resources are only counted', () => {
    const tally = new LimitlessTally()
    const [limit = parseLimit('rpm=1/min')] = limits('rpm=1/min')
    for (let at = 0; at < 20_100; at++) {
      const own = {...limit, capacity: at + 1, refillAmount: at + 1}
      tally.add({namespace: 'ns', namespaceName: 'acme', entity: `e${at}`, resource: 'gpt-4', limits: [own]})
    }
    add(tally, 30, ['rpm=1/min'], 'many')
    expect(tally.limitless.resources[0]).toMatchObject({
      buckets: 20_130,
      common: limits('rpm=1/min'),
      exceptions: 20_099,
    })
    const wide = new LimitlessTally()
    const same = limits('rpm=1/min')
    for (let at = 0; at < 5_010; at++)
      wide.add({namespace: 'ns', namespaceName: 'acme', entity: 'e', resource: `r${at}`, limits: same})
    expect(wide.limitless).toMatchObject({buckets: 5_010, unlisted: 10})
    expect(wide.limitless.resources).toHaveLength(5_000)
  })

  it('counts buckets whose limits cannot be configured apart from exceptions', () => {
    const tally = new LimitlessTally()
    add(tally, 2, ['rpm=100/min'])
    add(tally, 3, undefined)
    expect(tally.limitless.resources[0]).toMatchObject({buckets: 5, exceptions: 0, underivable: 3})
  })
})

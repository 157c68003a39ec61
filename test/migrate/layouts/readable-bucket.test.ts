import {describe, expect, it} from 'vitest'
import {isReadableBucket} from '../../../src/lib/migrate/layouts/old-limit-parts.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'

const composite: Item = {
  PK: s('ENTITY#user-1'),
  SK: s('#BUCKET#gpt-4'),
  rf: n(1_700_000_000_000),
  b_rpm_tk: n(-5),
  b_rpm_cp: n(60_000),
  b_rpm_bx: n(100_000),
  b_rpm_ra: n(60_000),
  b_rpm_rp: n(60_000),
  b_rpm_tc: n(7),
}

const perLimit: Item = {
  PK: s('ENTITY#user-1'),
  SK: s('#BUCKET#gpt-4#rpm'),
  tokens_milli: n(-5),
  last_refill_ms: n(1_700_000_000_000),
  capacity_milli: n(60_000),
  refill_amount_milli: n(60_000),
  refill_period_ms: n(60_000),
}

function without(item: Item, ...names: string[]): Item {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !names.includes(name)))
}

describe('a bucket item can be read', () => {
  it('when every limit has a balance, a rate and an instant; counters may be missing', () => {
    expect(isReadableBucket(composite)).toBe(true)
    expect(isReadableBucket(without(composite, 'b_rpm_tc', 'b_rpm_bx'))).toBe(true)
    expect(isReadableBucket(perLimit)).toBe(true)
    const {PK, SK, ...data} = perLimit
    expect(isReadableBucket({PK: s('ENTITY#user-1'), SK: s('#BUCKET#gpt-4#rpm'), data: {M: data}})).toBe(true)
  })

  it('when it has only counters, as a whole or of one limit', () => {
    const counters = {b_tpm_tk: n(-4000), b_tpm_tc: n(4000)}
    expect(isReadableBucket({...composite, ...counters})).toBe(true)
    expect(isReadableBucket({PK: s('ENTITY#user-1'), SK: s('#BUCKET#gpt-4'), ...counters})).toBe(true)
  })

  it('whatever its write pressure is', () => {
    expect(isReadableBucket({...composite, b_wcu_tk: n(3), b_wcu_ra: n(0)})).toBe(true)
  })

  it.each(['rf', 'b_rpm_tk', 'b_rpm_cp', 'b_rpm_ra', 'b_rpm_rp'])('but not without %s', name => {
    expect(isReadableBucket(without(composite, name))).toBe(false)
  })

  it.each(['rf', 'b_rpm_tk', 'b_rpm_cp', 'b_rpm_bx', 'b_rpm_ra', 'b_rpm_rp', 'b_rpm_tc'])(
    'but not with %s as text',
    name => {
      expect(isReadableBucket({...composite, [name]: s('90000')})).toBe(false)
    },
  )

  it.each(['b_rpm_cp', 'b_rpm_bx', 'b_rpm_ra', 'b_rpm_rp'])('but not with %s of 0', name => {
    expect(isReadableBucket({...composite, [name]: n(0)})).toBe(false)
  })

  it('but not with a rate of 0, or text, in the item of a limit', () => {
    for (const name of ['capacity_milli', 'refill_amount_milli', 'refill_period_ms']) {
      expect(isReadableBucket({...perLimit, [name]: n(0)})).toBe(false)
    }
    expect(isReadableBucket({...perLimit, total_consumed_milli: s('7')})).toBe(false)
    expect(isReadableBucket({...perLimit, burst_milli: s('7')})).toBe(false)
  })
})

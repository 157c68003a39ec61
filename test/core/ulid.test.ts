import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {LATEST_ULID_MS, ulid, ulidTimeMs} from '../../src/lib/core/ulid.js'

const time = fc.integer({min: 0, max: LATEST_ULID_MS})
const random = fc.uint8Array({minLength: 10, maxLength: 10})

describe('ulid', () => {
  it('encodes time and randomness by the specification', () => {
    expect(ulid(1_469_918_176_385, new Uint8Array(10))).toBe('01ARYZ6S410000000000000000')
    expect(ulid(0, new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 33]))).toBe('00000000000000000000000011')
    expect(ulid(LATEST_ULID_MS, new Uint8Array(10).fill(255))).toBe(`7${'Z'.repeat(25)}`)
  })

  it('sorts by time, then by randomness', () => {
    fc.assert(
      fc.property(time, random, time, random, (t1, r1, t2, r2) => {
        const order = t1 - t2 || Buffer.compare(r1, r2)
        const [a, b] = [ulid(t1, r1), ulid(t2, r2)]
        expect(Math.sign(a < b ? -1 : a > b ? 1 : 0)).toBe(Math.sign(order))
      }),
    )
  })

  it('decodes its time', () => {
    fc.assert(fc.property(time, random, (t, r) => ulidTimeMs(ulid(t, r)) === t))
  })

  it.each(['', '01ARYZ6S41', '8ZZZZZZZZZZZZZZZZZZZZZZZZZ', '01ARYZ6S41000000000000000I', '01aryz6s410000000000000000'])(
    'finds no time in %j',
    text => expect(ulidTimeMs(text)).toBeUndefined(),
  )

  it.each([-1, 1.5, LATEST_ULID_MS + 1, Number.NaN])('rejects the time %s', t =>
    expect(() => ulid(t, new Uint8Array(10))).toThrow(RangeError),
  )

  it('rejects another amount of randomness', () => {
    expect(() => ulid(0, new Uint8Array(16))).toThrow(RangeError)
  })
})

import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {PackedValues} from '../../../src/lib/live/poll/packed-readings.js'
import {runs} from '../../helpers/runs.js'

/** Everything that can be packed, in any nesting. */
const anyValue = fc.letrec(tie => ({
  value: fc.oneof(
    {depthSize: 'small'},
    fc.constantFrom(undefined, null, true, false, 0, -0, Number.NaN, Number.POSITIVE_INFINITY),
    fc.oneof(fc.integer(), fc.maxSafeInteger(), fc.double()),
    fc.oneof(fc.bigInt(), fc.bigInt({min: -(2n ** 49n), max: 2n ** 49n})),
    fc.string({unit: 'binary'}),
    fc.string(),
    fc.array(tie('value')),
    fc.array(fc.tuple(tie('value'), tie('value'))).map(entries => new Map(entries)),
    fc.dictionary(fc.string(), tie('value'), {noNullPrototype: true}),
  ),
})).value

describe('packed values', () => {
  it('equal the originals, in any order of reads', () => {
    fc.assert(
      fc.property(fc.array(anyValue, {maxLength: 8}), values => {
        const packed = new PackedValues()
        const places = values.map(value => packed.add(value))
        for (const [at, place] of [...places.entries()].reverse()) expect(packed.at(place)).toStrictEqual(values[at])
      }),
      {numRuns: runs(100)},
    )
  })

  it.each([0, 1, -1].flatMap(by => [7, 8, 15, 31, 47, 48, 53].map(bits => 2 ** bits + by)))(
    'of the size of %i are exact',
    size => {
      const values = [size, -size, BigInt(size), -BigInt(size)]
      const packed = new PackedValues()
      expect(packed.at(packed.add(values))).toStrictEqual(values)
    },
  )

  it('equal the originals with unique texts, and with many megabytes', () => {
    const packed = new PackedValues()
    const sample = (at: number) => ({id: `id ${at}`, again: [`id ${at}`, `é ${at}`, `ω ${at}`], size: at})
    const places = Array.from({length: 12_000}, (_, at) => packed.add(sample(at)))
    const large = Array.from({length: 300}, (_, at) => `${at}`.repeat(3000))
    const place = packed.add(large)
    const after = packed.add('after')
    for (const at of [0, 5000, 11_999]) expect(packed.at(places[at] as number)).toStrictEqual(sample(at))
    expect(packed.at(place)).toStrictEqual(large)
    expect(packed.at(after)).toBe('after')
  })

  it('equal the originals when names look like those of other values', () => {
    const packed = new PackedValues()
    const values = [{}, {'': 1}, {a: 1, b: 2}, {'a\nb': 1}, {'a","b': 1}, JSON.parse('{"__proto__": 1}')]
    const places = values.map(value => packed.add(value))
    expect(places.map(place => packed.at(place))).toStrictEqual(values)
  })

  it('keep the functions and class instances of the originals', () => {
    const packed = new PackedValues()
    const value = {at: () => 1, since: new Date(5)}
    const copy = packed.at(packed.add(value)) as typeof value
    expect(copy).not.toBe(value)
    expect(copy.at).toBe(value.at)
    expect(copy.since).toBe(value.since)
  })
})

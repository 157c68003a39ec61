import {describe, expect, it} from 'vitest'
import {formatMetadata, parseMetadata} from '../../../src/lib/cli/entity/presenter.js'

describe('metadata', () => {
  it('accepts KEY=VALUE, and takes the value literally', () => {
    expect(parseMetadata(['a=1', 'b=', 'c=x=y', 'd e= f '])).toEqual({a: '1', b: '', c: 'x=y', 'd e': ' f '})
    expect(Object.keys(parseMetadata(['__proto__=x']))).toEqual(['__proto__'])
    expect(parseMetadata([])).toEqual({})
  })

  it.each([
    ['tier', 'metadata.syntax', 'the "=" between key and value is missing'],
    ['=gold', 'metadata.syntax', 'the key is missing'],
  ])('refuses %s', (piece, code, why) => {
    expect(() => parseMetadata(['a=1', piece])).toThrow(
      expect.objectContaining({code, kind: 'usage', message: `--metadata: cannot read "${piece}": ${why}`}),
    )
  })

  it('refuses a key given twice', () => {
    expect(() => parseMetadata(['a=1', 'a=2'])).toThrow(expect.objectContaining({code: 'metadata.duplicate'}))
  })

  it('is sorted by key, with JSON for values that are not strings', () => {
    expect(formatMetadata({b: 'x', a: {c: [1, null]}, d: true})).toBe('a={"c":[1,null]}, b=x, d=true')
    expect(formatMetadata({})).toBeUndefined()
  })
})

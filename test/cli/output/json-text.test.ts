import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {parse} from 'yaml'
import {jsonPieces, jsonText} from '../../../src/lib/cli/output/json-text.js'
import {yamlText} from '../../../src/lib/files/yaml-text.js'
import {runs} from '../../helpers/runs.js'

const HIDDEN = /(?!\n)[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Cs}]/u

describe('JSON', () => {
  it('escapes characters that a terminal would act on', () => {
    expect(jsonText({'\u009b': 'a\u202e\u{e0041}👩🏽‍🚀'}, 2)).toBe('{\n  "\\u009b": "a\\u202e\\udb40\\udc41👩🏽‍🚀"\n}')
    expect(jsonText(['\u007f'])).toBe('["\\u007f"]')
  })

  it('parses to the same value, whatever it contains', () => {
    fc.assert(
      fc.property(fc.jsonValue({stringUnit: 'binary'}), fc.constantFrom(undefined, 2), (value, indent) => {
        const text = jsonText(value, indent)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(text).not.toMatch(HIDDEN)
      }),
    )
  })

  it('is the same when a result is printed in pieces', () => {
    const list = fc.array(fc.jsonValue(), {minLength: 95, maxLength: 305, size: 'max'})
    const field = fc.oneof(fc.jsonValue(), fc.constant(undefined), list)
    const result = fc.dictionary(fc.string({unit: 'binary'}), field, {maxKeys: 5, noNullPrototype: true})
    fc.assert(
      fc.property(fc.oneof(result, fc.jsonValue()), value => {
        expect([...jsonPieces(value)].join('')).toBe(`${jsonText(value, 2)}\n`)
      }),
      {numRuns: runs(100)},
    )
  })

  it('prints a long list in short pieces', () => {
    const rows = Array.from({length: 20_000}, (_, at) => ({entity: `user-${at}`}))
    const pieces = [...jsonPieces({rows, count: rows.length})]
    expect(Math.max(...pieces.map(piece => piece.length))).toBeLessThan(100_000)
    expect(pieces.join('')).toBe(`${jsonText({rows, count: rows.length}, 2)}\n`)
  })
})

describe('YAML', () => {
  it('quotes strings with hidden characters, and only those', () => {
    expect(yamlText({a: 'b', '\u202e': '\u009b2J'})).toBe('a: b\n"\\u202e": "\\u009b2J"\n')
    expect(yamlText({text: 'two\nlines'})).toBe('text: |-\n  two\n  lines\n')
  })

  it('parses to the same value, whatever it contains', () => {
    const strings = fc.array(fc.string({unit: 'binary'}).filter(text => !/\p{Cs}/u.test(text)))
    fc.assert(
      fc.property(strings, values => {
        const text = yamlText({values})
        expect(parse(text)).toEqual({values})
        expect(text).not.toMatch(HIDDEN)
      }),
    )
  })

  it('accepts options, also with hidden characters', () => {
    const options = {lineWidth: 0, compat: 'yaml-1.1'} as const
    const long = 'word '.repeat(40).trim()
    expect(yamlText({a: long, b: 'yes'}, options)).toBe(`a: ${long}\nb: "yes"\n`)
    expect(yamlText({a: long, b: 'yes', c: 'x\u202ey'}, options)).toBe(`a: ${long}\nb: "yes"\nc: "x\\u202ey"\n`)
  })
})

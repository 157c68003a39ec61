import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {parse} from 'yaml'
import {jsonText} from '../../../src/lib/cli/output/json-text.js'
import {yamlText} from '../../../src/lib/cli/output/yaml-text.js'

const HIDDEN = /(?!\n)[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Cs}]/u

describe('JSON', () => {
  it('has escapes for what a terminal would act on', () => {
    expect(jsonText({'\u009b': 'a\u202e\u{e0041}👩🏽‍🚀'}, 2)).toBe('{\n  "\\u009b": "a\\u202e\\udb40\\udc41👩🏽‍🚀"\n}')
    expect(jsonText(['\u007f'])).toBe('["\\u007f"]')
  })

  it('reads as the same value, whatever it contains', () => {
    fc.assert(
      fc.property(fc.jsonValue({stringUnit: 'binary'}), fc.constantFrom(undefined, 2), (value, indent) => {
        const text = jsonText(value, indent)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(text).not.toMatch(HIDDEN)
      }),
    )
  })
})

describe('YAML', () => {
  it('quotes strings with hidden characters, and only those', () => {
    expect(yamlText({a: 'b', '\u202e': '\u009b2J'})).toBe('a: b\n"\\u202e": "\\u009b2J"\n')
    expect(yamlText({text: 'two\nlines'})).toBe('text: |-\n  two\n  lines\n')
  })

  it('reads as the same value, whatever it contains', () => {
    const strings = fc.array(fc.string({unit: 'binary'}).filter(text => !/\p{Cs}/u.test(text)))
    fc.assert(
      fc.property(strings, values => {
        const text = yamlText({values})
        expect(parse(text)).toEqual({values})
        expect(text).not.toMatch(HIDDEN)
      }),
    )
  })

  it('takes options, also where something is hidden', () => {
    const options = {lineWidth: 0, compat: 'yaml-1.1'} as const
    const long = 'word '.repeat(40).trim()
    expect(yamlText({a: long, b: 'yes'}, options)).toBe(`a: ${long}\nb: "yes"\n`)
    expect(yamlText({a: long, b: 'yes', c: 'x\u202ey'}, options)).toBe(`a: ${long}\nb: "yes"\nc: "x\\u202ey"\n`)
  })
})

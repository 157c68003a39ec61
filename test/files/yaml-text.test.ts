import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {parse, stringify} from 'yaml'
import {plainYaml} from '../../src/lib/files/yaml-text.js'

const OPTIONS = [{}, {lineWidth: 0, compat: 'yaml-1.1'}] as const

/** Texts that some version of YAML reads as a value, or that need quotes; and plain ones. */
const words =
  'yes No ON off y N true False null ~ inf .inf NaN 1e3 0x1f 0o7 1_000 12:30:45 2026-01-01 600/min 600k/min 6,000/min 1/2/3 ' +
  '- -a a- a: :a a:b a#b #a a,b [a] {a} *a &a !a %a @a `a "a" \'a\' |a >a ?a =  << = user-00000001 team:7 a@b.c User_1 a.b/c'
const text = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom(...words.split(' '), '', ' ', ' a', 'a ', 'a b', 'a #b', 'a: b', 'a\nb', 'a\tb', 'ä'),
  },
  fc.string({maxLength: 100}),
  fc.array(fc.constantFrom('User', 'on', '7', 'a-b', ':', '-', '#'), {maxLength: 30}).map(parts => parts.join(' ')),
)
const scalar = fc.oneof(text, fc.integer(), fc.double(), fc.boolean(), fc.constant(null))
const value = fc.letrec(tie => ({
  value: fc.oneof({maxDepth: 4}, scalar, tie('object'), fc.array(tie('value'), {maxLength: 3})),
  object: fc.dictionary(text, tie('value'), {maxKeys: 3}),
})).value

describe('YAML of simple values', () => {
  it('equals the output of the yaml package', () => {
    let simple = 0
    fc.assert(
      fc.property(value, each => {
        const text = plainYaml(each)
        if (text === undefined) return
        simple++
        for (const options of OPTIONS) expect(text).toBe(stringify(each, options))
        expect(parse(text, {version: '1.1'})).toEqual(parse(text))
      }),
      {numRuns: 3000},
    )
    expect(simple).toBeGreaterThan(20)
  })

  it('writes an entity of a manifest, and leaves complex values to the package', () => {
    const entity = {
      name: 'User 7',
      parent: 'team:1',
      cascade: true,
      metadata: {plan: 'gold', seats: -3},
      left: undefined,
      resources: {'gpt-4': {limits: {rpm: '6000/min', tpm: '600k/min'}}},
      list: [{a: 1, b: ['x', null]}, ['z']],
    }
    expect(plainYaml({entities: {'user-7': entity}})).toBe(stringify({entities: {'user-7': entity}}))
    const shared = {a: 1}
    for (const each of [
      {},
      [],
      'text',
      {a: {}},
      {a: 'yes'},
      {a: '7'},
      {7: 1},
      {a: new Date(0)},
      {a: `${'a '.repeat(40)}a`},
    ]) {
      expect(plainYaml(each)).toBeUndefined()
    }
    expect(plainYaml({x: shared, y: shared})).toBeUndefined()
  })
})

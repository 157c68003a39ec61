import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {jsonText} from '../../../src/lib/cli/output/json-text.js'
import {type LongDocument, longJson, longYaml} from '../../../src/lib/cli/output/long-list.js'
import {yamlText} from '../../../src/lib/files/yaml-text.js'

async function joined(texts: AsyncIterable<string>): Promise<string> {
  let text = ''
  for await (const each of texts) text += each
  return text
}

async function* of<T>(elements: readonly T[]): AsyncGenerator<T, void> {
  yield* elements
}

const value = fc.jsonValue({maxDepth: 3})
const fields = fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), value, {maxKeys: 3, noNullPrototype: true})
const rows = fc.array(fields, {maxLength: 5})

describe('a document that is written in parts', () => {
  it('has the same text as the whole', async () => {
    await fc.assert(
      fc.asyncProperty(fields, rows, fields, async (before, list, after) => {
        const whole = {...before, ROWS: list, ...after}
        // The keys before and after the list are distinct.
        fc.pre(Object.keys(after).every(name => !(name in before)))
        const document = (): LongDocument => ({
          before,
          field: 'ROWS',
          parts: of(list.map(each => [each])),
          after: () => after,
        })
        expect(await joined(longJson(document()))).toBe(`${jsonText(whole, 2)}\n`)
        expect(await joined(longYaml(document(), yamlText))).toBe(yamlText(whole))
      }),
    )
  })

  it('combines the entries of objects, and omits empty optional parts', async () => {
    const document = (parts: object[]) =>
      ({before: {n: 1}, field: 'm', parts: of(parts), isOptional: true, after: () => ({})}) as LongDocument
    const parts = [{a: {x: [1]}}, {b: {}}, {9: null}]
    const whole =
      '{\n  "n": 1,\n  "m": {\n    "a": {\n      "x": [\n        1\n      ]\n    },\n    "b": {},\n    "9": null\n  }\n}\n'
    expect(await joined(longJson(document(parts)))).toBe(whole)
    expect(await joined(longYaml(document(parts), yamlText))).toBe(
      'n: 1\nm:\n  a:\n    x:\n      - 1\n  b: {}\n  "9": null\n',
    )
    expect(await joined(longJson(document([])))).toBe('{\n  "n": 1\n}\n')
    expect(await joined(longYaml(document([]), yamlText))).toBe('n: 1\n')
  })
})

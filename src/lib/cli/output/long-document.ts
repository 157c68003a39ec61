import {indentedJson, jsonInside, jsonText} from './json-text.js'

/** One field of a document that is too long to be held in memory, and the short fields around it. */
export interface LongDocument {
  readonly before: object
  readonly field: string
  /** The field in parts, none of them empty: lists of elements to concatenate, or objects whose entries to combine. */
  readonly parts: AsyncIterable<readonly unknown[] | Readonly<Record<string, unknown>>>
  /** Whether a field without parts is left out; otherwise it is an empty list. */
  readonly isOptional?: boolean
  /** Read when all parts were written. */
  readonly after: () => object
}

/** A document as JSON, part by part: the same text as of the whole. */
export async function* longJson({before, field, parts, isOptional, after}: LongDocument): AsyncGenerator<string, void> {
  const head = fieldsOf(before)
  let close = ''
  for await (const part of parts) {
    const [open, end] = Array.isArray(part) ? ['[', ']'] : ['{', '}']
    const name = `{\n${head.map(each => `${each},\n`).join('')}  ${jsonText(field)}: ${open}\n`
    yield `${close === '' ? name : ',\n'}${indentedJson(jsonInside(part))}`
    close = `\n  ${end}`
  }
  const tail = fieldsOf(after())
  if (close !== '') {
    yield `${[close, ...tail].join(',\n')}\n}\n`
    return
  }
  const empty = isOptional ? [] : [`  ${jsonText(field)}: []`]
  yield `{\n${[...head, ...empty, ...tail].join(',\n')}\n}\n`
}

/** A document as YAML, part by part; `yaml` makes the text of a whole one. */
export async function* longYaml(
  {before, field, parts, isOptional, after}: LongDocument,
  yaml: (value: object) => string,
): AsyncGenerator<string, void> {
  const head = textUnlessEmpty(before, yaml)
  let isEmpty = true
  for await (const part of parts) {
    const text = yaml({[field]: part})
    // The name of the field stands in a line of its own.
    yield isEmpty ? head + text : text.slice(text.indexOf('\n') + 1)
    isEmpty = false
  }
  if (isEmpty) yield head + (isOptional ? '' : yaml({[field]: []}))
  yield textUnlessEmpty(after(), yaml)
}

const textUnlessEmpty = (fields: object, yaml: (value: object) => string): string =>
  Object.keys(fields).length === 0 ? '' : yaml(fields)

const fieldsOf = (fields: object): string[] =>
  Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [jsonInside({[name]: value})]))

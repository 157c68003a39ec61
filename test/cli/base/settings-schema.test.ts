import {describe, expect, it} from 'vitest'
import {parseSettings} from '../../../src/lib/cli/base/settings-schema.js'
import type {InvalidInput} from '../../../src/lib/core/errors.js'
import type {Problem} from '../../../src/lib/files/document-problems.js'

function failureOf(text: string): InvalidInput {
  try {
    parseSettings(text, 'f.json', 'user')
  } catch (error) {
    return error as InvalidInput
  }
  throw new Error('expected a failure')
}

const problemsOf = (text: string): string[] =>
  (failureOf(text).details.problems as Problem[]).map(({line, column, message}) => `${line}:${column} ${message}`)

const NOT_A_STRING = 'the value of "stack" must be a JSON string, in double quotes'
const NO_KEY = 'is not a key here; allowed: stack, namespace, region, profile, endpointUrl, output'

describe('a settings file', () => {
  it('is one JSON object of strings', () => {
    expect(parseSettings('{}', 'f', 'user')).toEqual(new Map())
    expect(parseSettings('\t{\n"stack":\t"a\\u00e9\\"",\r\n "region": ""}\n', 'f', 'user')).toEqual(
      new Map([
        ['stack', {value: 'aé"', line: 2}],
        ['region', {value: '', line: 3}],
      ]),
    )
  })

  it.each([
    ['{\n  "stack": "a",\n  "region" "b"\n}', ['3:12 a "," or ":" is missing here']],
    ['{\n  "stack": "a"\n  "region": "b"\n}', ['3:3 a "," or ":" is missing here']],
    ['{"stack": "a" "region": "b"}', ['1:15 unexpected text; is a "," missing before it?']],
    ['{\n  "stack": "a",\n}', ['2:15 JSON does not allow "," before "}"']],
    ['{,}', ['1:2 unexpected ","']],
    ['{"stack": "a"', ['1:14 a "}" is missing here']],
    ['{"stack": "a', ['1:13 the closing quote is missing here']],
    ['{"stack": "\\x"}', ['1:12 JSON does not allow this escape']],
    ['{"stack": "a"}\n{}', ['2:1 unexpected "{"']],
    ['{"stack": 7}', [`1:11 ${NOT_A_STRING}`]],
    ['{"stack": }', [`1:11 ${NOT_A_STRING}`]],
    ['{"stack"}', [`1:2 ${NOT_A_STRING}`]],
    ['{"stack": {"a": "b"}}', [`1:11 ${NOT_A_STRING}`]],
    ["{'stack': 'a'}", ['1:2 a key must be a string in double quotes']],
    ['', ['1:1 the file must be one JSON object, such as {"stack": "local"}']],
    ['["a"]', ['1:1 the file must be one JSON object, such as {"stack": "local"}']],
    [
      '{"endpointUrl": "localhost:8000"}',
      [expect.stringContaining('1:17 endpointUrl must be an http or https address')],
    ],
    ['{"endpointUrl": "http://[bad"}', [expect.stringContaining('1:17 endpointUrl must be an http or https address')]],
    ['{"stack": "a", "output": "pdf"}', ['1:26 output must be one of table, json, jsonl, csv, yaml']],
  ])('refuses %j with line and column', (text, problems) => {
    expect(problemsOf(text)).toEqual(problems)
  })

  it.each([
    ['a block mapping', 'stack: a', '1:1 the file must be one JSON object'],
    ['a comment', '{"stack": "a" # "x\n}', '1:15 only strings and { } : , are allowed here, and no comments'],
    ['an anchor', '{"stack": &x "a"}', '1:11 only strings'],
    ['a tag', '{"stack": !!str "a"}', '1:11 only strings'],
    ['an alias', '{"region": "a", "stack": *x}', `1:26 ${NOT_A_STRING}`],
    ['a merge', '{"<<": {"stack": "a"}}', `1:2 "<<" ${NO_KEY}`],
    ['a document mark', '---\n{"stack": "a"}', '1:1 only strings'],
    ['a second document', '{"stack": "a"}\n---\n{}', '2:1 unexpected text'],
    ["YAML's escapes", '{"stack": "\\x41"}', `1:11 ${NOT_A_STRING}`],
    ['a string of two lines', '{"stack": "a\nb"}', `1:11 ${NOT_A_STRING}`],
    ['a tab as indentation of a block', 'a:\n\tstack: b', '2:1 unexpected text'],
  ])('refuses YAML: %s', (_what, text, problem) => {
    expect(problemsOf(text)).toEqual([expect.stringContaining(problem)])
  })

  it.each([
    [
      'names of prototypes',
      '{"__proto__": "a", "constructor": "b", "toString": "c"}',
      [`1:2 "__proto__" ${NO_KEY}`, `1:20 "constructor" ${NO_KEY}`, `1:40 "toString" ${NO_KEY}`],
    ],
    [
      'huge numbers',
      '{"stack": 1e400, "region": 9007199254740993}',
      [`1:11 ${NOT_A_STRING}`, expect.stringMatching(/^1:28 /)],
    ],
    ['100,000 brackets', '['.repeat(1e5), ['1:65 this is nested more than 64 levels deep']],
    ['100,000 braces', '{"a":'.repeat(1e4), [expect.stringContaining('this is nested more than 64 levels deep')]],
    [
      'an alias bomb',
      `{"a": &a ["x"], "b": &b [*a,*a], "stack": [*b,*b]}`,
      [expect.anything(), expect.anything(), `1:43 ${NOT_A_STRING}`],
    ],
    ['a NUL', '{"stack": "\0"}', [`1:11 ${NOT_A_STRING}`]],
  ])('withstands %s', (_what, text, problems) => {
    expect(problemsOf(text)).toEqual(problems)
    expect(({} as {polluted?: unknown}).polluted).toBeUndefined()
  })

  it.each([
    '{"secretKey": "hush"}',
    '{"secretKey": hush}',
    '{"stack": hush}',
    '{"stack": ["hush"]}',
    '{"stack": "hush" "region"}',
    '{"stack": "hush',
    '{"stack": "\\xhush"}',
    '{"stack": "x", "stack": "hush"}',
    '{"output": "hush"}',
    '{"endpointUrl": "hush"}',
    '{"<<": "hush"}',
    '{"stack": "x"} hush',
    'hush',
    '{"stack": *hush}',
    '{"stack": !hush "x"}',
    '{"stack": "x" # hush\n}',
  ])('never repeats a value in an error: %s', text => {
    const {message, hint, details} = failureOf(text)
    expect(JSON.stringify([message, hint, details])).not.toContain('hush')
  })

  it('escapes control characters of a file', () => {
    const shown = (text: string) => failureOf(text).message.replaceAll('\n', '')
    expect(shown('{"\u009b31m": "a", \u001b[31m: "b"}')).not.toMatch(/\p{Cc}/u)
    expect(shown('{"\\u001b[31m\\u202e": "a"}')).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/u)
  })
})

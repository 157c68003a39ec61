import {mkdtempSync, rmSync, writeFileSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, describe, expect, it} from 'vitest'
import {InvalidInput} from '../../src/lib/core/errors.js'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import type {Problem} from '../../src/lib/files/document-problems.js'
import {fingerprint} from '../../src/lib/manifest/fingerprint.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'
import {zael} from '../e2e/zael.js'

const parse = (text: string) => parseManifest(`namespace: a\n${text}`, {file: 'limits.yaml'})

function failureOf(text: string): InvalidInput {
  try {
    parseManifest(text, {file: 'limits.yaml'})
  } catch (error) {
    if (error instanceof InvalidInput) return error
    throw error
  }
  throw new Error('expected a failure')
}

const problemsOf = (text: string): string[] =>
  (failureOf(text).details.problems as Problem[]).map(({line, column, path, message}) => {
    return `${line}:${column} [${path}] ${message}`
  })

const aliases = (name: string, count: number) => Array(count).fill(`*${name}`).join(', ')

describe('a manifest that expands', () => {
  it('is refused for aliases of aliases in every place', () => {
    const count = 200
    const text = `namespace: a
resources:
  r0: &scope {limits: &limits {${Array.from({length: count}, (_, at) => `l${at}: 1`).join(', ')}}}
entities:
  e0: &entity {resources: {${Array.from({length: count}, (_, at) => `r${at}: *scope`).join(', ')}}}
${Array.from({length: count}, (_, at) => `  e${at + 1}: *entity`).join('\n')}`
    expect(problemsOf(text)).toEqual(['5:3 [] this has more than 1,000,000 values after expanding aliases'])
  })

  it('is accepted within bounds', () => {
    const users = Array.from({length: 2000}, (_, at) => `  u${at}: *user`).join('\n')
    const {entities} = parse(`entities:\n  first: &user {limits: {rpm: 1/min, tpm: 2/min}}\n${users}`)
    expect(entities.size).toBe(2001)
    const limits = [parseLimit('rpm=1/min'), parseLimit('tpm=2/min')]
    expect(entities.get('u1999')?.scopes.get('_default_')).toEqual({limits, policies: {}})
  })

  it('is refused for a merge list of thousands of aliases', () => {
    const text = `namespace: a\nresources: {a: {limits: &l {rpm: 1}}, b: {limits: {<<: [${aliases('l', 5000)}]}}}`
    expect(problemsOf(text)).toEqual([expect.stringContaining('<< merges 5,000 mappings; the maximum is 100')])
    const list = `namespace: a\nresources: {a: {limits: &l {rpm: 1}}, b: {limits: {<<: [${aliases('l', 100)}]}}}`
    expect(parseManifest(list, {file: 'f'}).resources.get('b')?.limits).toEqual([parseLimit('rpm=1/min')])
  })

  it('is refused for merges of many entries in many places', () => {
    const entries = Array.from({length: 2000}, (_, at) => `l${at}: 1`).join(', ')
    const merges = Array.from({length: 6}, (_, at) => `  r${at}: {limits: {<<: [${aliases('l', 100)}]}}`).join('\n')
    expect(problemsOf(`namespace: a\nresources:\n  a: {limits: &l {${entries}}}\n${merges}`)).toEqual([
      expect.stringContaining('the merges of this file add more than 1,000,000 entries'),
    ])
  })

  it('counts each distinct name once in merges of merges of merges', () => {
    const levels = Array.from({length: 40}, (_, at) => {
      return `  r${at + 1}: {limits: &m${at + 1} {<<: [*m${at}, *m${at}, *m${at}], l${at + 1}: 1}}`
    })
    const {resources} = parse(`resources:\n  r0: {limits: &m0 {l0: 1}}\n${levels.join('\n')}`)
    expect(resources.get('r40')?.limits).toHaveLength(41)
  })

  it.each([
    ['itself', 'resources: &r {a: *r}', '2:19 [] the alias *r refers to itself'],
    ['a text', 'resources: {<<: x}', '2:17 [resources] << needs a mapping or a list of mappings, not the text "x"'],
    [
      'a list in a list',
      'resources: {<<: [[{}]]}',
      '2:18 [resources] << needs a mapping or a list of mappings, not a list',
    ],
  ])('is refused for merging or containing %s', (_what, text, problem) => {
    expect(problemsOf(`namespace: a\n${text}`)).toEqual([problem])
  })

  it.each([
    ['brackets', '['.repeat(1e5)],
    ['closed brackets', '['.repeat(1e4) + ']'.repeat(1e4)],
    ['braces', '{a: '.repeat(1e4)],
    ['dashes', '- '.repeat(1e4)],
    ['question marks', '? '.repeat(1e4)],
    ['indentation', Array.from({length: 500}, (_, at) => `${' '.repeat(at)}a:`).join('\n')],
  ])('is refused for thousands of levels of %s, and does not end the process', (_what, text) => {
    expect(problemsOf(text)).toEqual([expect.stringMatching(/^\d+:\d+ \[\] this is nested more than 64 levels deep$/)])
  })
})

describe('names of built-in object properties', () => {
  const NAMES = ['constructor', 'toString', 'hasOwnProperty', 'valueOf']

  it('are accepted like any other where they are legal', () => {
    const scopes = NAMES.map(name => `  ${name}: {limits: {${NAMES.map(each => `${each}: 1`).join(', ')}}}`).join('\n')
    const entities = NAMES.map((name, at) => `  ${name}: {parent: ${NAMES[at + 1] ?? 'null'}, name: ${name}}`).join(
      '\n',
    )
    const manifest = parse(`resources:\n${scopes}\nentities:\n${entities}`)
    expect([...manifest.resources.keys()]).toEqual(NAMES)
    expect(manifest.resources.get('constructor')?.limits.map(({name}) => name)).toEqual([...NAMES].sort())
    expect([...manifest.entities.keys()]).toEqual(NAMES)
    expect(manifest.entities.get('valueOf')).toEqual({parent: null, name: 'valueOf', scopes: new Map()})
    expect(fingerprint(manifest)).toMatch(/^sha256:/)
  })

  it('refuse __proto__ everywhere except in metadata, and never drop it', () => {
    expect(
      problemsOf(`namespace: a
__proto__: {x: 1}
system: {limits: {__proto__: 1}}
resources: {__proto__: {limits: {rpm: 1}}}
entities: {__proto__: {}, e: {__proto__: 1}, f: {resources: {__proto__: {}}}}`),
    ).toEqual([
      expect.stringContaining('2:1 [] "__proto__" is not a key here'),
      expect.stringContaining('3:19 [system.limits] "__proto__" is not a valid limit name'),
      expect.stringContaining('4:13 [resources] "__proto__" is not a valid resource name'),
      expect.stringContaining('5:12 [entities] "__proto__" is not a valid entity id'),
    ])
    expect(problemsOf('namespace: a\nentities: {e: {__proto__: 1}, f: {resources: {__proto__: {}}}}')).toEqual([
      expect.stringContaining('2:16 [entities.e] "__proto__" is not a key here'),
      expect.stringContaining('2:47 [entities.f.resources] "__proto__" is not a valid resource name'),
    ])
  })

  it('are stored unchanged in metadata', () => {
    const {entities} = parse('entities: {e: {metadata: {__proto__: {polluted: 1}, constructor: 2, toString: null}}}')
    const metadata = entities.get('e')?.metadata as object
    expect(Object.entries(metadata)).toEqual([
      ['__proto__', {polluted: 1}],
      ['constructor', 2],
      ['toString', null],
    ])
    expect(({} as {polluted?: unknown}).polluted).toBeUndefined()
    expect((metadata as {polluted?: unknown}).polluted).toBeUndefined()
  })

  it('are unknown keys and texts elsewhere', () => {
    expect(problemsOf('namespace: a\nsystem: {constructor: 1, on_unavailable: toString}')).toEqual([
      expect.stringContaining('2:10 [system] "constructor" is not a key here'),
      expect.stringContaining('2:42 [system.on_unavailable] "toString" is not a policy'),
    ])
  })
})

describe('odd values and texts', () => {
  it.each([
    ['rpm: 1e400', '1e400'],
    ['rpm: 9007199254740993', 'above the maximum'],
    ['rpm: {capacity: 1e400}', 'must be a whole number from 1 to 9007199254740, not 1e400'],
    ['rpm: {capacity: 9007199254740993}', 'not 9007199254740993'],
    ['rpm: {capacity: -1}', 'not -1'],
    ['rpm: {capacity: .nan}', 'not .nan'],
  ])('refuses %s as written', (limit, problem) => {
    expect(problemsOf(`namespace: a\nresources: {g: {limits: {${limit}}}}`)).toEqual([expect.stringContaining(problem)])
  })

  it.each(['1e400', '9007199254740993', '-9007199254740993'])('refuses %s in metadata as written', value => {
    expect(problemsOf(`namespace: a\nentities: {e: {metadata: {x: ${value}}}}`)).toEqual([
      `2:30 [entities.e.metadata.x] ${value} cannot be stored exactly; write it in quotes`,
    ])
  })

  it('ignores a byte order mark when counting columns', () => {
    expect(parseManifest('\uFEFFnamespace: a', {file: 'f'}).namespace).toBe('a')
    expect(problemsOf('\uFEFFnamspace: a')[0]).toMatch(/^1:1 \[\] "namspace"/)
  })

  it('refuses tabs as indentation with their line', () => {
    expect(problemsOf('namespace: a\nresources:\n\tg: 1')).toEqual(['3:1 [] Tabs are not allowed as indentation'])
  })

  it('refuses duplicate keys at every level', () => {
    expect(
      problemsOf(
        'namespace: a\nnamespace: b\nentities: {e: {}, e: {metadata: {x: 1, x: 2}}}\nresources: {1: {}, "1": {}}',
      ),
    ).toEqual(
      expect.arrayContaining([
        '2:1 [] "namespace" is given twice',
        '3:19 [entities] "e" is given twice',
        '3:40 [entities.e.metadata] "x" is given twice',
        '4:20 [resources] "1" is given twice',
      ]),
    )
  })

  it('counts problems beyond a hundred instead of listing them', () => {
    const keys = Array.from({length: 5000}, (_, at) => `k${at}: 1`)
    const {message, details} = failureOf(['namespace: a', ...keys].join('\n'))
    expect(message.split('\n')).toHaveLength(102)
    expect(message).toMatch(/^The manifest has 5000 problems:\n.*\n {2}and 4,900 more$/s)
    expect(details.problems).toHaveLength(100)
    expect(failureOf('}'.repeat(5000)).message).toMatch(/^The manifest has 5000 problems:\n.+:1 .+ \(5,000 times\)$/)
  })
})

describe('a manifest file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'zael-hostile-'))
  afterAll(() => rmSync(folder, {recursive: true}))

  const validate = async (content: string | Buffer | undefined) => {
    const file = content === undefined ? folder : join(folder, 'limits.yaml')
    if (content !== undefined) writeFileSync(file, content)
    const {code, stdout, stderr} = await zael(['limits', 'validate', '-f', file])
    return {code, stdout, stderr: stderr.replaceAll(folder, '/F')}
  }

  it.each([
    ['a folder', undefined, 2, 'Cannot read /F: it is a folder'],
    ['empty', '', 2, '/F/limits.yaml:1:1 the file is empty; it needs at least "namespace"'],
    ['of comments', '# a\n\n', 2, 'the file is empty; it needs at least "namespace"'],
    ['of 50 MB', 'x'.repeat(50e6), 2, 'Cannot read /F/limits.yaml: it is larger than 16 MiB'],
    ['with a NUL byte', 'namespace: a\nsystem: \0', 2, 'it is not text: line 2 has a NUL byte'],
    ['in UTF-16', Buffer.from('\uFEFFnamespace: a', 'utf16le'), 2, 'it is not UTF-8 text'],
  ])('is refused if it is %s', async (_what, content, code, message) => {
    expect(await validate(content)).toEqual({code, stdout: '', stderr: expect.stringContaining(message)})
  })

  it('may exceed 16 MiB in the form of an export; otherwise the first other line is refused', async () => {
    const long = 'x'.repeat(10_000)
    const blocks = Array.from({length: 1700}, (_, at) => `  user-${at}:\n    name: ${long}\n`).join('')
    const text = `namespace: a\nentities:\n${blocks}`
    expect(await validate(text)).toMatchObject({code: 0, stdout: expect.stringContaining('entities 1,700'), stderr: ''})
    expect(await validate(`${text}system:\n  limits:\n    rpm: 1\n`)).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/it is larger than 16 MiB.*Line 3403 differs/s),
    })
    // A mistake in an entity is still reported, with its line.
    expect(await validate(`${text}  user-0:\n    name: again\n`)).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('limits.yaml:3403:3 entities: "user-0" is given twice'),
    })
  })

  it('may have a byte order mark, and come from standard input', async () => {
    expect(await validate('\uFEFFnamespace: a')).toMatchObject({code: 0, stderr: ''})
    const piped = (stdin: string) => zael(['limits', 'validate', '-f', '-'], {stdin})
    expect(await piped('\uFEFFnamespace: a')).toMatchObject({code: 0, stderr: ''})
    expect(await piped('x'.repeat(17 * 2 ** 20))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('Cannot read -: it is larger than 16 MiB'),
    })
  })
})

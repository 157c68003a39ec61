import {readdirSync, readFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {describe, expect, it} from 'vitest'

interface Text {
  readonly path: string
  readonly text: string
}

const ROOT = new URL('../', import.meta.url)
/** Numbers of invariants (`S6`, `L2`) and of faults of the reference system (`D-9`, `M-2`, `C-41`). */
const CITATION = /\b(?:[DMC]-\d{1,2}|[SL]\d{1,2})\b/g
/** A table row that defines a number starts with it. */
const DEFINITION = /^\| ([DMC]-\d{1,2}|[SL]\d{1,2}) \|/gm
const PAGES = ['docs/invariants.md', 'docs/reference-faults.md']
/** Not citations: DynamoDB's wire types, AWS's bucket service, spreadsheet cells and encoded ids in test data. */
const LOOKALIKE = /\bS3\b/

function textsOf(folder: string, ending: RegExp): Text[] {
  const url = new URL(`${folder}/`, ROOT)
  return readdirSync(fileURLToPath(url), {recursive: true, encoding: 'utf8'})
    .map(path => path.replaceAll('\\', '/'))
    .filter(path => ending.test(path))
    .map(path => ({path: `${folder}/${path}`, text: readFileSync(new URL(path, url), 'utf8')}))
}

/** Only comments and titles cite; the rest of the code may contain such letters for other reasons. */
function citingParts(text: string): string {
  const comments = text.match(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g) ?? []
  const titles = text.match(/\b(?:it|test|describe)(?:\.\w+)*(?:\([^'"`]*?\))?\(\s*(['"`])[\s\S]*?\1/g) ?? []
  return [...comments, ...titles].join('\n')
}

/** Every citation of a number that no page defines, as `path: number`. */
function undefinedCitations(files: readonly Text[], defined: ReadonlySet<string>): string[] {
  return files.flatMap(({path, text}) => {
    const cited = new Set(path.endsWith('.md') ? text.match(CITATION) : citingParts(text).match(CITATION))
    return [...cited]
      .filter(number => !defined.has(number) && !LOOKALIKE.test(number))
      .map(number => `${path}: ${number}`)
  })
}

const definitions = PAGES.flatMap(page =>
  [...readFileSync(new URL(page, ROOT), 'utf8').matchAll(DEFINITION)].map(([, number = '']) => number),
)

describe('numbers of invariants and reference faults', () => {
  it('are defined wherever sources, tests, benches or pages cite them', () => {
    const files = [
      ...['src', 'test', 'bench'].flatMap(folder => textsOf(folder, /\.tsx?$/)),
      ...textsOf('docs', /\.md$/),
    ].filter(({path}) => path !== 'test/citations.test.ts')
    expect(files.length).toBeGreaterThan(500)
    expect(undefinedCitations(files, new Set(definitions))).toEqual([])
  })

  it('are defined once', () => {
    expect(definitions.length).toBe(new Set(definitions).size)
    expect(definitions.length).toBeGreaterThan(100)
  })

  it('cites every number in at least one test', () => {
    const titles = textsOf('test', /\.tsx?$/)
      .filter(({path}) => path !== 'test/citations.test.ts')
      .map(({text}) => text)
      .join('\n')
    expect(definitions.filter(number => !new RegExp(`\\b${number}\\b`).test(titles))).toEqual([])
  })
})

describe('the checker', () => {
  it.each([
    {text: '// see D-99', found: ['a.ts: D-99']},
    {text: '/** S12 holds here. */', found: ['a.ts: S12']},
    {text: "it('C-77 does something', () => {})", found: ['a.ts: C-77']},
    {text: "it.each([1])('M-44 for %s', () => {})", found: ['a.ts: M-44']},
    {text: 'describe(`L99 is kept`, () => {})', found: ['a.ts: L99']},
    {text: "const code = 'D-99'", found: []},
    {text: '// D-1 is defined', found: []},
  ])('finds in $text: $found', ({text, found}) => {
    expect(undefinedCitations([{path: 'a.ts', text}], new Set(['D-1']))).toEqual(found)
  })

  it('reads whole pages', () => {
    expect(undefinedCitations([{path: 'docs/a.md', text: 'as S99 says'}], new Set())).toEqual(['docs/a.md: S99'])
  })
})

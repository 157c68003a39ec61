import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {stringify} from 'yaml'
import {ZaelError} from '../../src/lib/core/errors.js'
import {NotInBlocks, parseManifest, parseManifestBlocks} from '../../src/lib/manifest/parse.js'
import {runs} from '../helpers/runs.js'

const FILE = {file: 'limits.yaml'}

/** A manifest with the order of its entities, or all that an error says. */
function outcomeOf(parse: () => ReturnType<typeof parseManifest>): unknown {
  try {
    const manifest = parse()
    return {...manifest, order: [...manifest.entities.keys()]}
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    return {message: error.message, hint: error.hint, details: error.details}
  }
}

const whole = (text: string) => outcomeOf(() => parseManifest(text, FILE))

/** `undefined` where the text cannot be divided. Cut into pieces of a few characters, so that each boundary is cut too. */
function inBlocks(text: string, pieceLength = 7): unknown {
  const pieces = () => text.match(new RegExp(`[^]{1,${pieceLength}}`, 'gu')) ?? []
  try {
    return outcomeOf(() => parseManifestBlocks(pieces, FILE))
  } catch (error) {
    if (error instanceof NotInBlocks) return undefined
    throw error
  }
}

const HEAD = 'namespace: acme\nresources:\n  gpt-4:\n    limits:\n      rpm: 100/min\n'

// Lines of entities: as an export writes them, other notations, and mistakes.
const FIELDS = [
  '    name: User 1',
  '    name: yes',
  '    name: 007',
  '    name: "quoted: text"',
  "    name: 'it''s'",
  '    name:',
  '    name: |\n      two\n      lines',
  '    name: >-\n      folded\n\n      text',
  '    name: a\n      b',
  '    parent: team',
  '    parent: a',
  '    parent: b',
  '    parent: 12',
  '    parent: null',
  '    parent: no such id!',
  '    cascade: true',
  '    cascade: maybe',
  '    metadata:\n      plan: gold\n      seats: 12\n      deep:\n        er: null',
  '    metadata:\n      tags:\n        - a\n        - b',
  '    metadata: {plan: gold}',
  '    metadata:\n      plan: gold\n      plan: twice',
  '    limits:\n      rpm: 5/min',
  '    limits:\n      rpm: 0/min\n      tpm: 12x/min',
  '    limits: {rpm: 1_000}',
  '    limits:',
  '    resources:\n      gpt-4:\n        limits:\n          rpm: 6k/min\n          tpm: 600k/min',
  '    resources:\n      gpt-4:\n        disabled: bypass',
  '    resources:\n      _default_:\n        limits:\n          rpm: 6k/min',
  '    resources:\n      gpt-4:\n        limits:\n          rpm:\n            capacity: 10\n            refil: 3',
  '    resources:\n      bad name:\n        cascade: 1',
  '    naem: misspelled',
  '    # a comment',
  '  # another',
  '# a third',
  '',
  '    name: x # behind',
  '   name: three spaces',
  '     name: five spaces',
  '    ? key\n    : value',
  '    resources: *limits',
  '    metadata: &limits {a: 1}',
  '    <<: {name: merged}',
  '    name: R&D',
  '\tname: tab',
  '    name: "open',
  '---',
  'system:\n  limits:\n    rpm: 1/min',
]
const IDS = ['a', 'b', 'team', 'user-00000001', '12', '7', '"12"', 'no', 'b:c', 'ä', 'bad id', '- a', '__proto__']

/** Fields that go together, in one way or another. */
const GOOD_FIELDS = [
  ['    name: User 1', '    parent: team'],
  ['    parent: team', '    metadata:\n      plan: gold\n      seats: 12', '    limits:\n      rpm: 5/min'],
  ['    name: User 2', '    limits:\n      rpm: 5/min'],
  ['    limits:\n      rpm: 5/min'],
  ['    name: "007"', '    metadata: {tags: [a, b]}', '', '    # a comment'],
]

const block = fc
  .tuple(
    fc.oneof({weight: 2, arbitrary: fc.stringMatching(/^[a-z0-9]{1,3}$/)}, fc.constantFrom(...IDS)),
    fc.oneof(
      {weight: 2, arbitrary: fc.constantFrom(...GOOD_FIELDS)},
      fc.array(fc.constantFrom(...FIELDS), {minLength: 1, maxLength: 4}),
    ),
  )
  .map(([id, fields]) => [`  ${id}:`, ...fields].join('\n'))

const HEADS = [
  HEAD,
  'namespace: acme\n',
  '# about\n\nnamespace: acme\n',
  'namespace: Bad\nsystem:\n  limits: {}\n',
  'resources: {g: {limits: {rpm: 1}}}\nnamespace: a\n',
  'namespace: a\nresources:\n',
  '',
  'namespce: a\n',
  '---\nnamespace: a\n',
  'namespace: "a\n',
]

const manifestText = fc
  .tuple(
    fc.oneof({weight: 4, arbitrary: fc.constant(HEAD)}, fc.constantFrom(...HEADS)),
    fc.oneof(
      {weight: 6, arbitrary: fc.constant('entities:\n')},
      fc.constantFrom('entities: # all\n', 'entities:\n\n  # x\n', 'entities: {\n'),
    ),
    fc.array(block, {maxLength: 5}),
    fc.constantFrom('\n', '', '\n\n', '\n# the end\n', '\n  # the end'),
  )
  .map(([head, section, blocks, end]) => `${head}${section}${blocks.join('\n')}${end}`)

// Scalars and keys that YAML parsers misread, and lines that may end, begin or join neighbouring ones.
const SCALARS =
  'a|~|Null|no|on|True|1e3|0x10|.5|0o17|017|-0|+1|1_000|.inf|12345678901234567890|1.50|2026-01-01|12:30|5/min|"q"|"a: b"|""|a#b|a #c|a:|- a|-|' +
  '? a|!!str 5|!x y|[a, b]|[]|{a: 1, a: 2}|[a|{a|>-|@a|a,b|a]|ä|\u{1F600}|\u2028|a\u00A0b|\uFEFFa|a\tb|a |a\r|bypass|10|-5|1e3/min|"\\x"|it\'s'
const ODD_KEYS =
  `name|parent|limits|rpm|metadata|12|007|1e3|yes|null|~|"q"|'s'|"name"|a b|a:b|__proto__|constructor|ä|[a]|{a: b}|!!str z|4294967295|-1|` +
  `${'K'.repeat(1024)}|${'K'.repeat(1025)}`
const ODD_LINES = [
  ...'  {q: {name: Q}}|  !!map|  !!str q:|  ? q|  : x|  :|  - a|- a|  a|    a|      a|---|...|%YAML 1.1|}|  "|"|\u2028|\u0085|\0|\uFEFF'.split(
    '|',
  ),
  ...'  !!map\n    q:\n      name: Q|  ? q\n    : x|  q: !!map|  q: >\n   x|\u00A0x: 1| \u00A0x: 1|  \u00A0x: 1|  \u2028x: 1|\t|x:'.split(
    '|',
  ),
  ...'entities:|namespace: b|\u3000x:\n  y:|\u2028       seats: 12|\u2028 a:\n    name: A'.split('|'),
  ...[
    `# ${'c'.repeat(1100)}`,
    `  # ${'c'.repeat(1100)}`,
    `    name: |+\n      t\n\n`,
    '    name: |2\n      t',
    '    name: "two\n  b: x"',
  ],
]
const oddLine = fc.oneof(
  fc.constantFrom(...ODD_LINES),
  fc
    .tuple(
      fc.constantFrom('    ', '      ', '  ', '     '),
      ...[ODD_KEYS, SCALARS].map(all => fc.constantFrom(...all.split('|'))),
    )
    .map(([indent, key, scalar]) => `${indent}${key}: ${scalar}`),
)
const oddText = fc
  .tuple(
    fc.constantFrom(
      ...Array(14).fill(HEAD),
      ...HEADS,
      'namespace: |+\n  a\n\n',
      'namespace:\n  a\n',
      'namespace: a\nsystem: |\n',
      '\uFEFFnamespace: a\n',
    ),
    fc.array(fc.tuple(block, fc.option(oddLine, {freq: 2})), {minLength: 1, maxLength: 3}),
    fc.constantFrom('\n', '\n', '\n', '', '\n...\n', '\n---\n', '\n  ', '\n}'),
    fc.boolean(),
  )
  .map(([head, parts, end, isCrLf]) => {
    const text = `${head}entities:\n${parts.map(([first, odd]) => (odd === null ? first : `${first}\n${odd}`)).join('\n')}${end}`
    return isCrLf && text.length % 8 === 0 ? text.replaceAll('\n', '\r\n') : text
  })

describe('a manifest that is read entity by entity', () => {
  it('parses equally with odd scalars, keys and lines', () => {
    let divided = 0
    fc.assert(
      fc.property(oddText, fc.integer({min: 1, max: 40}), (text, pieceLength) => {
        const found = inBlocks(text, pieceLength)
        if (found === undefined) return
        divided++
        expect(found).toEqual(whole(text))
      }),
      {numRuns: runs(400), seed: 2},
    )
    expect(divided).toBeGreaterThan(runs(20))
  })

  it('has the values and problems of a manifest read as a whole', () => {
    const seen = {divided: 0, valid: 0, invalid: 0}
    fc.assert(
      fc.property(manifestText, fc.integer({min: 1, max: 40}), (text, pieceLength) => {
        const found = inBlocks(text, pieceLength)
        if (found === undefined) return
        seen.divided++
        expect(found).toEqual(whole(text))
        if ('order' in (found as object)) seen.valid++
        else seen.invalid++
      }),
      {numRuns: runs(400)},
    )
    // Not a comparison of nothing.
    expect(seen.valid).toBeGreaterThan(runs(12))
    expect(seen.invalid).toBeGreaterThan(runs(16))
  })

  it('parses equally after any small mistake', () => {
    const text = `${HEAD}entities:\n${['a', 'b', 'c'].map(id => `  ${id}:\n    name: User ${id}\n    parent: team\n    metadata:\n      plan: gold\n    resources:\n      gpt-4:\n        limits:\n          rpm: 6k/min\n`).join('')}`
    const sign = fc.constantFrom(
      '',
      ' ',
      '\n',
      ':',
      '"',
      "'",
      '#',
      '-',
      '&',
      '*',
      '{',
      '[',
      '|',
      '\t',
      '\r',
      '!',
      '%',
      '\uFEFF',
      '\0',
      'x',
      '  ',
    )
    let divided = 0
    fc.assert(
      fc.property(fc.nat(text.length), fc.integer({min: 0, max: 3}), sign, (at, gone, put) => {
        const slipped = text.slice(0, at) + put + text.slice(at + gone)
        const found = inBlocks(slipped, 50)
        if (found === undefined) return
        divided++
        expect(found).toEqual(whole(slipped))
      }),
      {numRuns: runs(400)},
    )
    expect(divided).toBeGreaterThan(runs(60))
  })

  it('is divided as exports write it, also with quoted texts, lists and trailing comments', () => {
    const entities = {
      team: {name: 'yes'},
      a: {name: 'x: y', parent: 'team', metadata: {tags: ['a', 'b'], note: 'two\nlines'}, limits: {rpm: '5/min'}},
      b: {name: '# no comment', resources: {g: {disabled: true, limits: {tpm: '$5/day@UTC'}}}},
    }
    const text = `${stringify({namespace: 'acme', entities}, {lineWidth: 0})}# Set until an end\n#   a: rpm=9/min\n`
    expect(inBlocks(text)).toEqual(whole(text))
    expect(inBlocks(text)).toHaveProperty('order', ['team', 'a', 'b'])
  })

  it('shares equal statements of entities, apart from name and parent', () => {
    const rest = '    metadata:\n      plan: gold\n    resources:\n      g:\n        limits:\n          rpm: 5/min\n'
    const text = `namespace: a\nentities:\n  u1:\n    name: X\n${rest}  u2:\n${rest}  u3:\n    name: Z\n    parent: u1\n${rest}`
    const {entities} = parseManifestBlocks(() => [text], FILE)
    const [x, y, z] = ['u1', 'u2', 'u3'].map(id => entities.get(id))
    expect([x?.name, y?.name, z?.name, z?.parent]).toEqual(['X', undefined, 'Z', 'u1'])
    expect(y).not.toHaveProperty('name')
    expect(y?.scopes).toBe(x?.scopes)
    expect(z?.metadata).toBe(x?.metadata)
  })

  it('reports a cycle at its line, however far apart its entities are', () => {
    const many = Array.from({length: 200}, (_, at) => `  u${at}:\n    name: U\n`).join('')
    const text = `namespace: a\nentities:\n  x:\n    parent: y\n${many}  y:\n    parent: x\n`
    expect(inBlocks(text, 100)).toEqual(whole(text))
    expect(inBlocks(text, 100)).toHaveProperty('details.problems.0.line', 4)
  })

  it.each([
    ['entities before another section', 'namespace: a\nentities:\n  x:\n    name: X\nsystem:\n  limits:\n    rpm: 1\n'],
    ['another indentation', 'namespace: a\nentities:\n    x:\n        name: X\n'],
    ['an anchor', 'namespace: a\nentities:\n  x:\n    limits: &l {rpm: 1}\n  y:\n    limits: *l\n'],
    ['JSON', '{"namespace": "a", "entities": {}}'],
    ['no entities', 'namespace: a\n'],
    ['a block of a mebibyte', `namespace: a\nentities:\n  x:\n    name: ${'y'.repeat(2 ** 20)}\n`],
    ['a key that is too long', `namespace: a\nentities:\n  x:\n    metadata:\n      ${'K'.repeat(1025)}: 1\n`],
    ['an id that is too long behind an empty entity', `namespace: a\nentities:\n  x:\n  ${'K'.repeat(1024)}: 1\n`],
    ['entities in braces', 'namespace: a\nentities:\n  x:\n    name: X\n  {y: {name: Y}}\n'],
    ['entities of a tag', 'namespace: a\nentities:\n  x:\n    name: X\n  !!map\n    y:\n      name: Y\n'],
    ['a section whose name begins with a wide space', 'namespace: a\nentities:\n  x:\n    name: X\n\u3000y: 1\n'],
    ['a section whose name begins with U+2028', 'namespace: a\nentities:\n  x:\n    name: X\n\u2028y: 1\n'],
    ['an entity that is no YAML', 'namespace: a\nentities:\n  x:\n    name: "open\n  y:\n    name: Y\n'],
  ])('leaves %s to the whole-file parser', (_, text) => {
    expect(inBlocks(text, Math.ceil(text.length / 20))).toBeUndefined()
  })
})

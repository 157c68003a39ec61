import {describe, expect, it} from 'vitest'
import {checkLimitName, checkResourceName} from '../../src/lib/core/names.js'
import {readString} from '../../src/lib/schema/attribute-value.js'
import {attributes} from '../../src/lib/schema/attributes.js'
import {encodeMigration} from '../../src/lib/schema/migration-record.js'
import {readSources} from '../helpers/sources.js'
import {samples} from './samples.js'
import {spelledNames, vocabulary} from './spelling.js'

/** Lists the names that limits and resources cannot use. It is below schema, so it is compared here. */
const RESERVED_NAMES = 'src/lib/core/names.ts'

describe('attribute names and key prefixes', () => {
  it('are spelled only in schema', () => {
    const files = readSources().filter(
      ({path}) => !/^src\/lib\/(schema|migrate\/layouts)\//.test(path) && path !== RESERVED_NAMES,
    )
    expect(files.length).toBeGreaterThan(100)
    expect(files.flatMap(spelledNames)).toEqual([])
  })

  it('are all in the vocabulary that the sources are searched for', () => {
    const known = new Set([...vocabulary.KEY_ATTRIBUTES, ...vocabulary.ATTRIBUTES])
    const migration = encodeMigration({
      ...{runId: '1', owner: 'me', leaseUntilMs: 1, step: 'data', position: {PK: 'a', SK: 'b'}, pass: 1, passWrites: 0},
      ...{counts: {}, startedAt: '1', finishedAt: '2', earlierFinishedAt: '0', failure: 'none', verifiedAt: '3'},
    })
    const items = [...samples.map(({item, name}) => ({item, name})), {item: migration, name: 'migration'}]
    for (const {item, name} of items) {
      for (const [attribute, value] of Object.entries(item)) {
        const isLimitOrMark = vocabulary.STEMS.some(stem => attribute.startsWith(stem))
        // Usage records and the registry of entity configurations have numbers named after limits and resources.
        const isCounter = /usage|registry/.test(name) && 'N' in value
        if (!isLimitOrMark && !isCounter) expect(known, `${name}: ${attribute}`).toContain(attribute)
      }
      const key = `${readString(item, attributes.key.partition)} ${readString(item, attributes.key.sort)}`
      const parts = key.match(/(?<=\/)[A-Z_]+#|(?<= )#[A-Z_]+(?:#[A-Z]+(?=#))?#?/g)
      expect(parts, `${name}: ${key}`).toHaveLength(2)
      for (const part of parts ?? []) expect(vocabulary.KEY_PARTS, `${name}: ${key}`).toContain(part)
    }
  })

  it('are reserved if a limit or resource of that name would overwrite one', () => {
    const {expiresAt, fractions: _, refusals: __, rolledUp: ___, firstAt: ____, ...usage} = attributes.usage
    for (const name of [...vocabulary.KEY_ATTRIBUTES, expiresAt]) {
      expect(() => checkLimitName(name)).toThrow('reserved')
      expect(() => checkResourceName(name)).toThrow('reserved')
    }
    for (const name of Object.values(usage)) expect(() => checkLimitName(name)).toThrow('reserved')
  })
})

const ITEMS = `import {type Item, s} from '../../schema/attribute-value.js'\n`
const BUILDER = `import {ExpressionBuilder} from '../../dynamo/expression.js'\nconst e = new ExpressionBuilder()\n`

function spelled(text: string, path = 'src/lib/repository/buckets/planted.ts'): string[] {
  return spelledNames({path, text}).map(found => found.replace(`${path} spells `, ''))
}

describe('the search', () => {
  it.each([
    ['a key attribute', `const name = 'PK'`, 'PK'],
    ['a key attribute as a property', 'export const pk = (key: Key) => key.PK', 'PK'],
    ['a key attribute as a destructured property', 'const {SK} = key', 'SK'],
    ['a key attribute as a key', `const key = {PK: 'a'}`, 'PK'],
    ['a key attribute in a declaration', 'interface Key {SK: string}', 'SK'],
    ['a part of a key attribute', `const name = \`\${index}SK\``, 'SK'],
    ['an index', `const query = {IndexName: 'GSI2'}`, 'GSI2'],
    ['an index in an address', `const arn = \`table/\${name}/index/GSI1\``, 'GSI1'],
    ['the key of an index', 'const {GSI3PK} = item', 'GSI3PK'],
    ['a key prefix', `const key = 'ENTITY#' + entity`, 'ENTITY#'],
    ['a key prefix in a template', `const key = \`\${namespace}/BUCKET#\${entity}\``, 'BUCKET#'],
    ['a sort key', `if (key === '#META') run()`, '#META'],
    ['the prefix of a sort key', `text.startsWith('#CONFIG#')`, '#CONFIG#'],
    ['a name with an underscore', `${ITEMS}const names = ['shard_count']`, 'shard_count'],
    ['a name with an underscore as a property', `${ITEMS}const count = record.total_events`, 'total_events'],
    ['a name with an underscore in a type', `${ITEMS}type Details = {parent_id: string}`, 'parent_id'],
    ['the attribute of a limit', `${ITEMS}const name = \`b_\${limit}_tk\``, 'b_'],
    ['the attribute of a configured limit', `${ITEMS}const isLimit = /^l_.+_/.test(name)`, 'l_'],
    ['the slots of a configured limit', `${ITEMS}const slots = item['if_parallel']`, 'if_'],
    ['the mark of a write', `${ITEMS}const mark = 'wn_0'`, 'wn_'],
    ['a word given to a builder', `${BUILDER}e.set('status', s('active'))`, 'status'],
    ['a word at the end of a chain', `${BUILDER}e.set(a, b).remove('ttl')`, 'ttl'],
    ['a word given to a new builder', `new ExpressionBuilder().project('rf')`, 'rf'],
    ['a word given to a builder that is passed in', `function f(e: ExpressionBuilder) { e.name('window') }`, 'window'],
    ['a word in a condition', `${BUILDER}e.condition(\`attribute_exists(\${e.name('rf')})\`)`, 'rf'],
    ['a word given to a reader', `readNumber(item, 'ttl')`, 'ttl'],
    ['a word as a property of an item', 'const f = (item: Item | undefined) => item?.cascade', 'cascade'],
    ['a word as a computed property of an item', `const f = (stored: Item) => stored['rf']`, 'rf'],
    ['a word as a destructured property of an item', 'function f({version}: Item) {}', 'version'],
    ['a word taken out of an encoded record', 'const {resource, ...rest} = encodeConfig(record)', 'resource'],
    ['a word looked for in an item', `const f = (item: Item) => 'rq' in item`, 'rq'],
    ['a word taken from an answer', 'const {ttl} = answer.Item', 'ttl'],
  ])('finds %s', (_, text, name) => {
    expect(spelled(text)).toEqual([name])
  })

  it('finds names in commands and in JSX', () => {
    expect(spelled(`export const pk = 'PK'`, 'src/commands/limits/set.ts')).toEqual(['PK'])
    expect(spelled(`export const Row = () => <Text>{item.GSI1PK}</Text>`, 'src/lib/live/screen/row.tsx')).toEqual([
      'GSI1PK',
    ])
  })

  it.each([
    ['a sentence', `const hint = 'The version record is _/SYSTEM#, #VERSION.'`],
    ['an example', `const example = "zael migrate resolve 'ENTITY#user-1 #META'"`],
    ['binary data', `Buffer.from('PK\\x03\\x04')`],
    ['a comment', '// PK and SK\nconst a = 1 /* ENTITY# */'],
    ['a field of another document', `const policy = fields.get('on_unavailable')`],
    ['a word elsewhere', `const map = new Map(); map.set('status', 1); if (level === 'resource') run('window')`],
    ['a word as a property of a record', 'const f = (record: EntityRecord) => record.cascade && record.version'],
    ['a name of schema', `${BUILDER}e.set(attributes.bucket.expiresAt, n(1)).project(...keyNames())`],
    ['an imported path', `import {x} from './PK'\nexport * from './SK'`],
    ['a longer word', `const text = ['PKCS8', 'SKIP', 'PRE_ENTITY#']`],
    ['a value', `${BUILDER}e.condition(\`\${e.name(status)} = \${e.value(s('version'))}\`)`],
  ])('accepts %s', (_, text) => {
    expect(spelled(text)).toEqual([])
  })
})

import {readFile} from 'node:fs/promises'
import {expect, it} from 'vitest'
import type {Generation} from '../../src/lib/migrate/records/classify.js'
import type {AttributeValue, Item} from '../../src/lib/schema/attribute-value.js'
import {makePopulation} from './fixtures/make-population.js'
import {GENERATIONS, itemsOf} from './fixtures/old-table.js'

/** Attribute names and types of the items that these releases wrote to a real table, by kind of key. */
const observed: Record<string, Record<string, string[][]>> = JSON.parse(
  await readFile(new URL('fixtures/observed-shapes.json', import.meta.url), 'utf8'),
)

const RELEASES: Record<Generation, readonly string[]> = {
  1: ['0.2.0', '0.5.0'],
  2: ['0.6.0'],
  3: ['0.7.0'],
  4: ['0.9.0'],
  5: ['0.10.0'],
  6: ['0.10.3'],
}

// The retention stub comes from deploying with CloudFormation.
const NOT_OBSERVED = /^default\//

const population = makePopulation({entities: 60})

it.each(GENERATIONS)('fixtures of generation %i have the shapes that its releases wrote', generation => {
  const shapes = new Map<string, Set<string>>()
  for (const release of RELEASES[generation]) {
    for (const [kind, seen] of Object.entries(observed[release] ?? {})) {
      const all = shapes.get(kind) ?? new Set<string>()
      for (const shape of seen) all.add(shape.join(', '))
      shapes.set(kind, all)
    }
  }
  const written = new Set<string>()
  for (const item of itemsOf(generation, population)) {
    const kind = kindOf(item)
    if (NOT_OBSERVED.test(kind)) continue
    written.add(kind)
    expect([...(shapes.get(kind) ?? [])], kind).toContain(shapeOf(item, kind))
  }
  expect([...written].sort()).toEqual([...shapes.keys()].sort())
})

/** `{ns}/ENTITY# #BUCKET#*#*` */
function kindOf({PK, SK}: Item): string {
  const [, namespace = '', partition = ''] = /^(?:([^#/]+)\/)?([A-Z_]+)#/.exec(textOf(PK)) ?? []
  const prefix = namespace === 'aB3x_9QwErT' ? '{ns}/' : namespace === '' ? '' : `${namespace}/`
  const [, first, ...rest] = textOf(SK).split('#')
  return `${prefix}${partition}# #${[first, ...rest.map(() => '*')].join('#')}`
}

const OPTIONAL = new Set(['PK', 'SK', 'ttl', 'parent_id', 'GSI1PK', 'GSI1SK'])
const PERHAPS_NULL = new Set(['principal', 'resource', 'lambda_version', 'updated_by', 'parent_id'])

function shapeOf(item: Item, kind: string): string {
  const names = new Set<string>()
  for (const [name, value] of Object.entries(item)) {
    if (OPTIONAL.has(name)) continue
    if (name === 'data' && 'M' in value) {
      for (const [inner, each] of Object.entries(value.M)) names.add(`data.${inner} ${typeOf(inner, each)}`)
    } else if (isNamedByUsers(kind, name, value)) {
      names.add(`* ${typeOf(name, value)}`)
    } else {
      names.add(`${name.replace(/^([bl])_.+_(..)$/, '$1_*_$2')} ${typeOf(name, value)}`)
    }
  }
  return [...names].sort().join(', ')
}

/** Counters are called after limits or resources. */
function isNamedByUsers(kind: string, name: string, value: AttributeValue): boolean {
  return /#(ENTITY_CONFIG_RESOURCES$|USAGE#)/.test(kind) && 'N' in value && name !== 'total_events'
}

function typeOf(name: string, value: AttributeValue): string {
  const type = Object.keys(value)[0] as string
  return type === 'NULL' && PERHAPS_NULL.has(name) ? 'S' : type
}

const textOf = (value: AttributeValue | undefined): string => (value && 'S' in value ? value.S : '')

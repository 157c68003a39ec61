import {isMap, isScalar, isSeq, type Node} from 'yaml'
import type {Limit} from '../core/limit.js'
import {checkConfigResource, checkEntityId, DEFAULT_RESOURCE} from '../core/names.js'
import type {Json} from '../schema/json-attribute.js'
import type {ManifestEntity} from './manifest.js'
import {checkedName, parseManifestLimits} from './parse-limits.js'
import type {ManifestSource} from './source.js'

const FIELDS = ['name', 'parent', 'cascade', 'metadata', 'limits', 'resources'] as const

// Aliases can expand a short text without limit.
const MAX_METADATA_VALUES = 1000
// DynamoDB allows 32 levels; the attribute itself is one.
const MAX_METADATA_DEPTH = 30
// The range of a DynamoDB number.
const LARGEST_NUMBER = 9.9e125
const SMALLEST_NUMBER = 1e-130

/** The entities section. */
export function parseEntities(source: ManifestSource, node: Node): Map<string, ManifestEntity> {
  const entities = new Map<string, ManifestEntity>()
  const parents = new Map<string, {parent: string; node: Node}>()
  for (const {name: id, key, value} of source.entries(node, 'entities', 'entities')) {
    if (checkedName(source, key, 'entities', id, checkEntityId) === undefined) continue
    const path = `entities.${id}`
    const fields = source.fields(value, path, 'an entity', FIELDS)
    const entity = {...recordOf(source, fields, path), limits: limitsOf(source, fields, path)}
    entities.set(id, entity)
    if (typeof entity.parent === 'string') {
      parents.set(id, {parent: entity.parent, node: fields.get('parent') as Node})
    }
  }
  reportCycles(source, parents)
  return entities
}

type Fields = ReadonlyMap<(typeof FIELDS)[number], Node>

function recordOf(source: ManifestSource, fields: Fields, path: string): Omit<ManifestEntity, 'limits'> {
  const [name, parent, cascade, metadata] = FIELDS.map(field => fields.get(field))
  return {
    ...(name && withValue('name', source.text(name, `${path}.name`, 'must be text'))),
    ...(parent && withValue('parent', parentOf(source, parent, `${path}.parent`))),
    ...(cascade && withValue('cascade', booleanOf(source, cascade, `${path}.cascade`))),
    ...(metadata && withValue('metadata', metadataOf(source, metadata, `${path}.metadata`))),
  }
}

const withValue = <Name extends string, T>(name: Name, value: T | undefined) =>
  (value === undefined ? {} : {[name]: value}) as {[key in Name]?: T}

function limitsOf(source: ManifestSource, fields: Fields, path: string): Map<string, readonly Limit[]> {
  const limits = new Map<string, readonly Limit[]>()
  const ownDefault = fields.get('limits')
  const parsed = ownDefault && parseManifestLimits(source, ownDefault, `${path}.limits`)
  if (parsed) limits.set(DEFAULT_RESOURCE, parsed)
  const resources = fields.get('resources')
  const entries = resources ? source.entries(resources, `${path}.resources`, 'resources') : []
  for (const {name, key, value} of entries) {
    const here = `${path}.resources.${name}`
    if (checkedName(source, key, `${path}.resources`, name, checkConfigResource) === undefined) continue
    if (name === DEFAULT_RESOURCE && ownDefault) {
      source.report(key, here, `"limits" of the entity already sets ${DEFAULT_RESOURCE}; give only one of them`)
    }
    const parsedLimits = parseScopeLimits(source, value, here)
    if (parsedLimits) limits.set(name, parsedLimits)
  }
  return limits
}

/** A mapping whose only key is `limits`. */
export function parseScopeLimits(source: ManifestSource, node: Node, path: string): Limit[] | undefined {
  const known = source.problems.length
  const limits = source.fields(node, path, 'this', ['limits']).get('limits')
  if (limits) return parseManifestLimits(source, limits, `${path}.limits`)
  if (source.problems.length === known) source.report(node, path, 'no limits are given; add "limits"')
  return undefined
}

function parentOf(source: ManifestSource, node: Node, path: string): string | null | undefined {
  const target = source.resolve(node)
  if (isScalar(target) && target.value === null) return null
  const text = source.text(node, path, 'must be the id of an entity')
  return text === undefined ? undefined : checkedName(source, node, path, text, checkEntityId)
}

function booleanOf(source: ManifestSource, node: Node, path: string): boolean | undefined {
  const target = source.resolve(node)
  if (isScalar(target) && typeof target.value === 'boolean') return target.value
  source.report(node, path, `must be true or false, not ${source.kindOf(node)}`)
  return undefined
}

function metadataOf(source: ManifestSource, node: Node, path: string): {[key: string]: Json} | undefined {
  let values = 0
  let isTooLarge = false
  const jsonOf = (each: Node, here: string, depth: number): Json => {
    isTooLarge ||= ++values > MAX_METADATA_VALUES || depth > MAX_METADATA_DEPTH
    if (isTooLarge) return null
    const target = source.resolve(each)
    if (isMap(target)) {
      const entries = source.entries(each, here, 'metadata')
      for (const {name, key} of entries) {
        if (name === '') source.report(key, here, 'a metadata key cannot be empty: DynamoDB does not allow it')
      }
      return Object.fromEntries(entries.map(({name, value}) => [name, jsonOf(value, `${here}.${name}`, depth + 1)]))
    }
    if (isSeq(target)) return (target.items as Node[]).map((item, at) => jsonOf(item, `${here}.${at}`, depth + 1))
    const value = isScalar(target) ? target.value : undefined
    if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
    if (typeof value === 'number' && isStorable(value)) return value === 0 ? 0 : value
    source.report(each, here, `${source.kindOf(each)} cannot be stored exactly; write it in quotes`)
    return null
  }
  if (!isMap(source.resolve(node))) {
    source.report(node, path, `metadata must be a mapping, not ${source.kindOf(node)}`)
    return undefined
  }
  const metadata = jsonOf(node, path, 0) as {[key: string]: Json}
  if (!isTooLarge) return metadata
  const limit = `${MAX_METADATA_VALUES} values, ${MAX_METADATA_DEPTH} levels`
  source.report(node, path, `there is more metadata than an entity can have (${limit})`)
  return undefined
}

function isStorable(value: number): boolean {
  if (Number.isInteger(value)) return Number.isSafeInteger(value)
  const size = Math.abs(value)
  return size <= LARGEST_NUMBER && size >= SMALLEST_NUMBER
}

/** Reports each cycle of parents within the file once, at one of its entities. */
function reportCycles(source: ManifestSource, parents: ReadonlyMap<string, {parent: string; node: Node}>): void {
  const cleared = new Set<string>()
  for (const start of parents.keys()) {
    const path: string[] = []
    let next: string | undefined = start
    while (next !== undefined && !cleared.has(next) && !path.includes(next)) {
      path.push(next)
      next = parents.get(next)?.parent
    }
    if (next !== undefined && !cleared.has(next)) {
      const cycle = [...path.slice(path.indexOf(next)), next]
      const {node} = parents.get(next) as {node: Node}
      source.report(node, `entities.${next}.parent`, `the parents form a cycle: ${cycle.join(' → ')}`)
    }
    for (const entity of path) cleared.add(entity)
  }
}

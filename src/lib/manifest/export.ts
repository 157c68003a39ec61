import {boostedOf, type Limit} from '../core/limits/limit.js'
import {formatLimit} from '../core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {printableText} from '../core/text/printable.js'
import {formatMinute} from '../core/text/text.js'
import {yamlText} from '../files/yaml-text.js'
import {nameOf} from '../repository/limits/checks.js'
import type {BoostedLimit} from '../repository/limits/configs.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {UnsupportedFeature} from '../repository/table/unsupported-feature.js'
import type {ConfigRecord} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import type {Json} from '../schema/json-attribute.js'
import {byText, policiesForm} from './manifest.js'

type Form = {readonly [key: string]: Json}

/** YAML 1.1 reads a plain `yes` as true. */
const MANIFEST_YAML = {lineWidth: 0, compat: 'yaml-1.1'} as const

/** Yields sorted pieces; applying them back changes nothing. May miss changes of the last second: indexes lag. */
export async function* manifestTexts(
  repository: NamespaceRepository,
  namespace: string,
  signal?: AbortSignal,
): AsyncGenerator<string, void> {
  const [{head, entities}, boosts] = await Promise.all([
    openExport(repository, namespace, signal),
    repository.configs.boosts(),
  ])
  yield yamlText(head, MANIFEST_YAML)
  let isFirst = true
  for await (const [id, form] of entities) {
    const text = yamlText({entities: {[id]: form}}, MANIFEST_YAML)
    // Drop the repeated line `entities:`.
    yield isFirst ? text : text.slice(text.indexOf('\n') + 1)
    isFirst = false
  }
  yield boostComment(boosts)
}

/** A manifest states limits without boosts; a comment lists active boosts. */
function boostComment(boosts: readonly BoostedLimit[]): string {
  const active = boosts.filter(({limit}) => !limit.boost?.isEnded)
  if (active.length === 0) return ''
  const each = active.map(({scope, limit}) => {
    const boosted = boostedOf(limit) ?? limit
    return `#   ${printableText(nameOf(scope))}: ${formatLimit(boosted)} until ${formatMinute(limit.boost?.untilMs ?? 0)}\n`
  })
  return `# Temporary limits, not part of this manifest; \`zael limits apply\` keeps them.\n${each.join('')}`
}

/** The entities are sorted by id, and read lazily. */
export async function openExport(repository: NamespaceRepository, namespace: string, signal?: AbortSignal) {
  const [system, resources] = await Promise.all([
    repository.configs.get({level: 'system'}),
    repository.configs.resources(),
  ])
  for (const record of [...(system ? [system] : []), ...resources]) requireExpressible(record)
  const head: Form = {
    namespace,
    ...systemForm(system),
    ...section(
      'resources',
      resources
        .map(withoutCopy)
        .filter(saysSomething)
        .map(record => [resourceOf(record), scopeForm(record)]),
    ),
  }
  return {head, entities: entityForms(repository, signal)}
}

/** Merges several indexes, each sorted by entity. */
async function* entityForms(
  repository: NamespaceRepository,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly [id: string, form: Form], void> {
  const {configs, entities} = repository
  const resources = await configs.resourcesOfEntities()
  const sources = [
    entities.walk({}, {signal}),
    ...resources.map(resource => configs.walkEntities(resource, signal)),
  ] satisfies AsyncIterable<EntityRecord | ConfigRecord>[]
  const idOf = (each: EntityRecord | ConfigRecord) => {
    if (!('scope' in each)) return each.entity
    return each.scope.level === 'entity' ? each.scope.entity : ''
  }
  for await (const [id, found] of mergeSorted<EntityRecord | ConfigRecord>(sources, idOf)) {
    const record = found.find((each): each is EntityRecord => !('scope' in each))
    const own = found.flatMap(each => ('scope' in each ? [each] : []))
    own.forEach(requireExpressible)
    const stated = own.map(withoutCopy).filter(saysSomething)
    if (record || stated.length > 0) yield [id, entityForm(record, stated)]
  }
}

/** Omitted or written as a plain rate, the limit would change when the manifest is applied. */
function requireExpressible({scope, unsupported}: ConfigRecord): void {
  if (unsupported) throw new UnsupportedFeature(`In a manifest, ${nameOf(scope)}`, unsupported, {scope})
}

/** Omits what expires: limits copied for a boost, and a temporary switch. */
const withoutCopy = (record: ConfigRecord): ConfigRecord => ({
  ...record,
  ...(record.copiedUntilMs !== undefined && {limits: []}),
  ...(record.accessUntilMs !== undefined && {access: undefined}),
})

const saysSomething = (record: ConfigRecord): boolean => Object.keys(scopeForm(record)).length > 0

const resourceOf = ({scope}: ConfigRecord): string => (scope.level === 'system' ? '' : scope.resource)

function systemForm(record: ConfigRecord | undefined): {system?: Json} {
  const policy = record?.onUnavailable
  const system = {...(policy === undefined ? {} : {on_unavailable: policy}), ...limitsForm(record?.limits ?? [])}
  return Object.keys(system).length === 0 ? {} : {system}
}

function entityForm(record: EntityRecord | undefined, configs: readonly ConfigRecord[]): Form {
  // The short form holds only limits.
  const ownDefault = configs.find(config => resourceOf(config) === DEFAULT_RESOURCE && !hasPolicies(config))
  const others = configs.filter(config => config !== ownDefault)
  return {
    ...(record && recordForm(record)),
    ...(ownDefault && limitsForm(ownDefault.limits)),
    ...section(
      'resources',
      others.map(config => [resourceOf(config), scopeForm(config)]),
    ),
  }
}

/** Fields that differ from the defaults; the name if none does, so that an apply creates the entity. */
function recordForm({entity, name, parent, cascade, metadata}: EntityRecord): {[key: string]: Json} {
  const form = {
    ...(name !== entity && {name}),
    ...(parent !== undefined && {parent}),
    ...(cascade && {cascade}),
    ...(Object.keys(metadata).length > 0 && {metadata: sortKeys(metadata)}),
  }
  return Object.keys(form).length === 0 ? {name} : form
}

function scopeForm(record: ConfigRecord): {[key: string]: Json} {
  return {...policiesForm(record), ...limitsForm(record.limits)}
}

const hasPolicies = (record: ConfigRecord): boolean => Object.keys(policiesForm(record)).length > 0

function limitsForm(limits: readonly Limit[]): {limits?: Json} {
  if (limits.length === 0) return {}
  return {
    limits: Object.fromEntries(limits.map(limit => [limit.name, formatLimit(limit).slice(limit.name.length + 1)])),
  }
}

function section(name: string, entries: Array<[string, Json]>): {[key: string]: Json} {
  if (entries.length === 0) return {}
  return {[name]: Object.fromEntries(entries.sort(([a], [b]) => byText(a, b)))}
}

/** The table does not preserve key order. */
function sortKeys(value: Json | EntityRecord['metadata']): Json {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).sort(([a], [b]) => byText(a, b))
  return Object.fromEntries(entries.map(([key, each]) => [key, sortKeys(each)]))
}

/** Merges sorted sources. Elements with the same key come together, in the order of the sources. */
export async function* mergeSorted<T>(
  sources: readonly AsyncIterable<T>[],
  keyOf: (element: T) => string,
): AsyncGenerator<readonly [key: string, elements: readonly T[]], void> {
  const open = sources.map(source => source[Symbol.asyncIterator]())
  const heads: (T | undefined)[] = []
  const advance = async (at: number): Promise<void> => {
    const next = await open[at]?.next()
    heads[at] = next?.done ? undefined : next?.value
  }
  try {
    await Promise.all(open.map((_, at) => advance(at)))
    for (;;) {
      let least: string | undefined
      for (const head of heads) {
        const key = head === undefined ? undefined : keyOf(head)
        if (key !== undefined && (least === undefined || key < least)) least = key
      }
      if (least === undefined) return
      const elements: T[] = []
      for (const at of open.keys()) {
        for (let head = heads[at]; head !== undefined && keyOf(head) === least; head = heads[at]) {
          elements.push(head)
          await advance(at)
        }
      }
      yield [least, elements]
    }
  } finally {
    await Promise.all(open.map(source => source.return?.()))
  }
}

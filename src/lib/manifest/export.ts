import {stringify} from 'yaml'
import {boostedOf, type Limit} from '../core/limit.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {formatLimit} from '../core/syntax/limit-text.js'
import {formatMinute} from '../core/text.js'
import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import {nameOf} from '../repository/limits/checks.js'
import type {BoostedLimit} from '../repository/limits/configs.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {UnsupportedFeature} from '../repository/table/unsupported-feature.js'
import type {ConfigRecord} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import type {Json} from '../schema/json-attribute.js'
import {byText, policiesForm} from './manifest.js'

const CONCURRENT_LISTINGS = 4

/**
 * The limits and entities of a namespace as a manifest, sorted by name. Applied to the same namespace, it changes nothing.
 * Reads only; a change of the last second may be missing, because indexes are eventually consistent.
 */
export async function exportManifest(repository: NamespaceRepository, namespace: string): Promise<string> {
  const [form, boosts] = await Promise.all([exportForm(repository, namespace), repository.configs.boosts()])
  // Readers of YAML 1.1 take a plain `yes` for true.
  return `${stringify(form, {lineWidth: 0, compat: 'yaml-1.1'})}${boostComment(boosts)}`
}

/** A manifest states what applies without boosts; those under way are said in a comment. */
function boostComment(boosts: readonly BoostedLimit[]): string {
  const active = boosts.filter(({limit}) => !limit.boost?.isEnded)
  if (active.length === 0) return ''
  const each = active.map(({scope, limit}) => {
    const boosted = boostedOf(limit) ?? limit
    return `#   ${nameOf(scope)}: ${formatLimit(boosted)} until ${formatMinute(limit.boost?.untilMs ?? 0)}\n`
  })
  return `# Set until an end, and not part of this manifest: \`zael limits apply\` leaves them alone.\n${each.join('')}`
}

/** The same as plain data; as JSON it is a manifest too. */
export async function exportForm(repository: NamespaceRepository, namespace: string): Promise<{[key: string]: Json}> {
  const [system, resources, entityConfigs, entities] = await Promise.all([
    repository.configs.get({level: 'system'}),
    repository.configs.resources(),
    allEntityConfigs(repository),
    repository.entities.list(),
  ])
  for (const record of [...(system ? [system] : []), ...resources, ...entityConfigs]) requireExpressible(record)
  return {
    namespace,
    ...systemForm(system),
    ...section(
      'resources',
      resources
        .map(withoutCopy)
        .filter(saysSomething)
        .map(record => [resourceOf(record), scopeForm(record)]),
    ),
    ...section('entities', entityForms(entities.records, entityConfigs.map(withoutCopy).filter(saysSomething))),
  }
}

async function allEntityConfigs({configs}: NamespaceRepository): Promise<ConfigRecord[]> {
  const resources = (await configs.entityCounts()).keys()
  const found: ConfigRecord[][] = []
  await forEachConcurrently(chunksOf(resources, 1), CONCURRENT_LISTINGS, async ([resource = '']) => {
    found.push([...(await configs.entities(resource)).records])
  })
  return found.flat()
}

/** Left out or as a plain rate, a limit would change where the manifest is applied. */
function requireExpressible({scope, unsupported}: ConfigRecord): void {
  if (unsupported) throw new UnsupportedFeature(`In a manifest, ${nameOf(scope)}`, unsupported, {scope})
}

/** Limits that exist only for the time of a boost are left out: what applies after it is set at another level. */
const withoutCopy = (record: ConfigRecord): ConfigRecord => (record.isForBoost ? {...record, limits: []} : record)

/** A record without limits and policies is not exported. */
const saysSomething = (record: ConfigRecord): boolean => Object.keys(scopeForm(record)).length > 0

const resourceOf = ({scope}: ConfigRecord): string => (scope.level === 'system' ? '' : scope.resource)

function systemForm(record: ConfigRecord | undefined): {system?: Json} {
  const policy = record?.onUnavailable
  const system = {...(policy === undefined ? {} : {on_unavailable: policy}), ...limitsForm(record?.limits ?? [])}
  return Object.keys(system).length === 0 ? {} : {system}
}

function entityForms(records: readonly EntityRecord[], configs: readonly ConfigRecord[]): Array<[string, Json]> {
  const byId = new Map<string, {record?: EntityRecord; configs: ConfigRecord[]}>()
  for (const record of records) byId.set(record.entity, {record, configs: []})
  for (const config of configs) {
    if (config.scope.level !== 'entity') continue
    const {entity} = config.scope
    const known = byId.get(entity)
    if (known) known.configs.push(config)
    else byId.set(entity, {configs: [config]})
  }
  return [...byId].map(([id, {record, configs: ownConfigs}]) => {
    // The short form has limits only.
    const ownDefault = ownConfigs.find(config => resourceOf(config) === DEFAULT_RESOURCE && !hasPolicies(config))
    const others = ownConfigs.filter(config => config !== ownDefault)
    return [
      id,
      {
        ...(record && recordForm(record)),
        ...(ownDefault && limitsForm(ownDefault.limits)),
        ...section(
          'resources',
          others.map(config => [resourceOf(config), scopeForm(config)]),
        ),
      },
    ]
  })
}

/** Fields that differ from the defaults; the name if none does, so that the entity is created where it is missing. */
function recordForm({entity, name, parent, cascade, metadata}: EntityRecord): {[key: string]: Json} {
  const form = {
    ...(name !== entity && {name}),
    ...(parent !== undefined && {parent}),
    ...(cascade && {cascade}),
    ...(Object.keys(metadata).length > 0 && {metadata: sortKeys(metadata)}),
  }
  return Object.keys(form).length === 0 ? {name} : form
}

/** The limits and policies of a scope, as a file states them. */
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

/** The table does not preserve the order of keys. */
function sortKeys(value: Json | EntityRecord['metadata']): Json {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).sort(([a], [b]) => byText(a, b))
  return Object.fromEntries(entries.map(([key, each]) => [key, sortKeys(each)]))
}

import type {ConfigScope} from '../schema/config-record.js'
import type {Managed, ManagedEntities} from '../schema/provisioner-record.js'
import {byText, type Manifest, type ManifestScope} from './manifest.js'

/** Unique per scope: entity and resource names contain no spaces. */
export function scopeName(scope: ConfigScope): string {
  if (scope.level === 'system') return 'system'
  return scope.level === 'resource' ? `resource ${scope.resource}` : `entity ${scope.entity} ${scope.resource}`
}

/** Takes about 10 MB for 100,000 entities. */
export class ScopeSet {
  #hasSystem = false
  readonly #resources = new Set<string>()
  /** The record's map until the first change. Lists are shared and never mutated. */
  #entities: ManagedEntities = new Map()
  #own: Map<string, readonly string[]> | undefined
  /** Interned lists: nearly all entities have one of a few. */
  readonly #lists = new Map<string, readonly string[]>()

  static of({managesSystem, resources, entities}: Managed): ScopeSet {
    const set = new ScopeSet()
    set.#hasSystem = managesSystem
    for (const resource of resources) set.#resources.add(resource)
    set.#entities = entities
    return set
  }

  add(scope: ConfigScope): void {
    if (scope.level === 'system') this.#hasSystem = true
    else if (scope.level === 'resource') this.#resources.add(scope.resource)
    else if (!this.has(scope)) {
      const resources = [...this.#resourcesOf(scope.entity), scope.resource].sort(byText)
      this.#ownEntities().set(scope.entity, this.#shared(resources))
    }
  }

  delete(scope: ConfigScope): void {
    if (scope.level === 'system') this.#hasSystem = false
    else if (scope.level === 'resource') this.#resources.delete(scope.resource)
    else {
      const left = this.#resourcesOf(scope.entity).filter(resource => resource !== scope.resource)
      if (left.length > 0) this.#ownEntities().set(scope.entity, this.#shared(left))
      else this.#ownEntities().delete(scope.entity)
    }
  }

  has(scope: ConfigScope): boolean {
    if (scope.level === 'system') return this.#hasSystem
    if (scope.level === 'resource') return this.#resources.has(scope.resource)
    return this.#resourcesOf(scope.entity).includes(scope.resource)
  }

  get size(): number {
    let size = (this.#hasSystem ? 1 : 0) + this.#resources.size
    for (const [, own] of this.#entities) size += own.length
    return size
  }

  *[Symbol.iterator](): Generator<ConfigScope, void> {
    if (this.#hasSystem) yield {level: 'system'}
    for (const resource of this.#resources) yield {level: 'resource', resource}
    for (const [entity, own] of this.#entities) for (const resource of own) yield {level: 'entity', entity, resource}
  }

  /** Not a copy, to save memory: the set must not change afterwards. */
  managed(): Managed {
    return {managesSystem: this.#hasSystem, resources: [...this.#resources], entities: this.#entities}
  }

  #ownEntities(): Map<string, readonly string[]> {
    if (!this.#own) {
      this.#own = new Map()
      for (const [entity, own] of this.#entities) if (own.length > 0) this.#own.set(entity, this.#shared(own))
      this.#entities = this.#own
    }
    return this.#own
  }

  #resourcesOf(entity: string): readonly string[] {
    return this.#entities.get(entity) ?? []
  }

  #shared(resources: readonly string[]): readonly string[] {
    const name = resources.join(' ')
    const list = this.#lists.get(name) ?? resources
    this.#lists.set(name, list)
    return list
  }
}

export interface StatedScope extends ManifestScope {
  readonly scope: ConfigScope
}

/** The system, then resources, then entities, each sorted by name. */
export function* statedScopes({system, resources, entities}: Manifest): Generator<StatedScope, void> {
  if (system) yield {scope: {level: 'system'}, limits: system.limits, policies: {}}
  for (const [resource, stated] of sorted(resources)) yield {scope: {level: 'resource', resource}, ...stated}
  for (const [entity, {scopes}] of sorted(entities)) {
    for (const [resource, stated] of sorted(scopes)) yield {scope: {level: 'entity', entity, resource}, ...stated}
  }
}

export function statedAt({system, resources, entities}: Manifest, scope: ConfigScope): ManifestScope | undefined {
  if (scope.level === 'system') return system && {limits: system.limits, policies: {}}
  if (scope.level === 'resource') return resources.get(scope.resource)
  return entities.get(scope.entity)?.scopes.get(scope.resource)
}

export function managedBy({system, resources, entities}: Manifest): Managed {
  const namesOf = (scopes: ReadonlyMap<string, unknown>) => [...scopes.keys()].sort(byText)
  function* listed(): Generator<[string, readonly string[]], void> {
    for (const [entity, {scopes}] of sorted(entities)) if (scopes.size > 0) yield [entity, namesOf(scopes)]
  }
  const get = (entity: string) => {
    const stated = entities.get(entity)
    return stated && namesOf(stated.scopes)
  }
  return {
    managesSystem: system !== undefined,
    resources: namesOf(resources),
    entities: {[Symbol.iterator]: listed, get},
  }
}

function* sorted<T>(map: ReadonlyMap<string, T>): Generator<[string, T], void> {
  for (const name of [...map.keys()].sort(byText)) yield [name, map.get(name) as T]
}

import type {Managed} from '../repository/provisioner.js'
import type {ConfigScope} from '../schema/config-record.js'
import {byText, type Manifest, type ManifestScope} from './manifest.js'

/** Unique per scope: entity and resource names contain no spaces. */
export function scopeName(scope: ConfigScope): string {
  if (scope.level === 'system') return 'system'
  return scope.level === 'resource' ? `resource ${scope.resource}` : `entity ${scope.entity} ${scope.resource}`
}

/** A set of scopes, as the provisioner's record keeps it. */
export class ScopeSet {
  readonly #scopes = new Map<string, ConfigScope>()

  constructor(scopes: Iterable<ConfigScope> = []) {
    for (const scope of scopes) this.add(scope)
  }

  static of({managesSystem, resources, entities}: Managed): ScopeSet {
    const set = new ScopeSet()
    if (managesSystem) set.add({level: 'system'})
    for (const resource of resources) set.add({level: 'resource', resource})
    for (const [entity, own] of entities) for (const resource of own) set.add({level: 'entity', entity, resource})
    return set
  }

  add(scope: ConfigScope): void {
    this.#scopes.set(scopeName(scope), scope)
  }

  delete(scope: ConfigScope): void {
    this.#scopes.delete(scopeName(scope))
  }

  has(scope: ConfigScope): boolean {
    return this.#scopes.has(scopeName(scope))
  }

  equals(other: ScopeSet): boolean {
    return this.#scopes.size === other.#scopes.size && [...this.#scopes.values()].every(scope => other.has(scope))
  }

  [Symbol.iterator](): Iterator<ConfigScope> {
    return this.#scopes.values()
  }

  managed(): Managed {
    const resources: string[] = []
    const entities = new Map<string, string[]>()
    for (const scope of this) {
      if (scope.level === 'resource') resources.push(scope.resource)
      if (scope.level !== 'entity') continue
      const known = entities.get(scope.entity)
      if (known) known.push(scope.resource)
      else entities.set(scope.entity, [scope.resource])
    }
    return {managesSystem: this.has({level: 'system'}), resources, entities}
  }
}

/** A scope, and what a file states about it. */
export interface StatedScope extends ManifestScope {
  readonly scope: ConfigScope
}

/** Each stated scope: the system, then resources, then entities, each sorted by name. */
export function statedScopes({system, resources, entities}: Manifest): StatedScope[] {
  return [
    ...(system ? [{scope: {level: 'system'} as const, limits: system.limits, policies: {}}] : []),
    ...sorted(resources).map(([resource, stated]) => ({scope: {level: 'resource', resource} as const, ...stated})),
    ...sorted(entities).flatMap(([entity, {scopes}]) =>
      sorted(scopes).map(([resource, stated]) => ({scope: {level: 'entity', entity, resource} as const, ...stated})),
    ),
  ]
}

const sorted = <T>(map: ReadonlyMap<string, T>): Array<[string, T]> => [...map].sort(([a], [b]) => byText(a, b))

import {InvalidInput} from '../core/errors.js'
import {baseOf, type Limit} from '../core/limits/limit.js'
import type {NamespaceRepository, Repository} from '../repository/repository.js'
import type {Json} from '../schema/attribute-value.js'
import {type ConfigRecord, countingAt, type OnUnavailable, type Policies} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'

/** The desired limits of one namespace, as a file states them. Limits are sorted by name. */
export interface Manifest {
  /** The name, not the id. */
  readonly namespace: string
  readonly system: ManifestSystem | undefined
  readonly resources: ReadonlyMap<string, ManifestScope>
  readonly entities: ReadonlyMap<string, ManifestEntity>
}

export interface ManifestScope {
  readonly limits: readonly Limit[]
  /** Switch and cascade policy; those that are left out stay, and those that are `undefined` are removed. */
  readonly policies: Policies
}

export interface ManifestSystem {
  readonly limits: readonly Limit[]
  /** Absent: the stored policy is kept. */
  readonly onUnavailable: OnUnavailable | undefined
}

/** What a file states about an entity; absent fields are left unchanged. */
export interface ManifestEntity {
  readonly name?: string
  /** `null` for no parent. */
  readonly parent?: string | null
  readonly cascade?: boolean
  readonly metadata?: {readonly [key: string]: Json}
  /** By resource; the entity's default is `_default_`. */
  readonly scopes: ReadonlyMap<string, ManifestScope>
}

export function statesRecord({name, parent, cascade, metadata}: Omit<ManifestEntity, 'scopes'>): boolean {
  return name !== undefined || parent !== undefined || cascade !== undefined || metadata !== undefined
}

export function policiesForm({access, cascade}: Policies): {[key: string]: Json} {
  return {
    ...(access !== undefined && {disabled: access === 'bypass' ? access : access === 'disabled'}),
    ...(cascade !== undefined && {cascade}),
  }
}

/** By code unit, in the table's sort order. */
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Opens the namespace of a manifest; a namespace that was also requested must be the same (M-8). */
export async function openManifestNamespace(
  repository: Repository,
  manifest: Manifest,
  requested?: string,
): Promise<NamespaceRepository> {
  const {namespace} = manifest
  if (requested !== undefined && requested !== namespace) {
    const message = `The manifest is for namespace "${namespace}", not for "${requested}".`
    throw new InvalidInput('manifest.namespace', message, {
      hint: 'Leave out --namespace, or change `namespace:` in the file.',
      details: {namespace, asked: requested},
    })
  }
  return repository.namespace(namespace)
}

/** The fields of an entity's record. `parent` is `null` for none. */
export type EntityFields = Omit<ManifestEntity, 'scopes'>

export interface EntityRecordChange {
  readonly kind: 'entity'
  readonly action: 'create' | 'update'
  readonly entity: string
  /** Current values of the fields that change; empty for a new entity. */
  readonly before: EntityFields
  readonly after: EntityFields
  /** Number of ancestors in the file: parents come before their children. */
  readonly depth: number
}

export type EntitySource = 'manifest' | 'import'

/** The records of entities that exist. Those that are as stated, or are only parents, need not be kept. */
export type LiveEntities = ReadonlyMap<string, EntityRecord | 'same'>

/** Limits that exist only for the time of a boost are no part of what is configured: stated, they are new. */
export const withoutCopy = (record: ConfigRecord | undefined): ConfigRecord | undefined => countingAt(record, Infinity)

export function limitsWithoutBoosts(record: ConfigRecord | undefined): Limit[] {
  return (withoutCopy(record)?.limits ?? []).map(baseOf)
}

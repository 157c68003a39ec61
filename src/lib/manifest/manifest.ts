import {InvalidInput} from '../core/errors.js'
import {baseOf, type Limit} from '../core/limits/limit.js'
import type {NamespaceRepository, Repository} from '../repository/repository.js'
import {type ConfigRecord, countingAt, type OnUnavailable, type Policies} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import type {Json} from '../schema/json-attribute.js'

/** Limits are sorted by name. */
export interface Manifest {
  /** The name, not the id. */
  readonly namespace: string
  readonly system: ManifestSystem | undefined
  readonly resources: ReadonlyMap<string, ManifestScope>
  readonly entities: ReadonlyMap<string, ManifestEntity>
}

export interface ManifestScope {
  readonly limits: readonly Limit[]
  /** Absent: keep the stored policy. `undefined`: remove it. */
  readonly policies: Policies
}

export interface ManifestSystem {
  readonly limits: readonly Limit[]
  /** `undefined`: keep the stored policy. */
  readonly onUnavailable: OnUnavailable | undefined
}

/** Absent fields are kept. */
export interface ManifestEntity {
  readonly name?: string
  /** `null`: no parent. */
  readonly parent?: string | null
  readonly cascade?: boolean
  readonly metadata?: {readonly [key: string]: Json}
  /** By resource; `_default_` is for all others. */
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

/** By code unit, the table's sort order. */
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Throws when another namespace was requested (M-8). */
export async function openManifestNamespace(
  repository: Repository,
  manifest: Manifest,
  requested?: string,
): Promise<NamespaceRepository> {
  const {namespace} = manifest
  if (requested !== undefined && requested !== namespace) {
    const message = `The manifest is for namespace "${namespace}", not for "${requested}".`
    throw new InvalidInput('manifest.namespace', message, {
      hint: 'Omit --namespace, or change `namespace:` in the file.',
      details: {namespace, asked: requested},
    })
  }
  return repository.namespace(namespace)
}

export type EntityFields = Omit<ManifestEntity, 'scopes'>

export interface EntityRecordChange {
  readonly kind: 'entity'
  readonly action: 'create' | 'update'
  readonly entity: string
  /** Current values of the fields that change; empty for a new entity. */
  readonly before: EntityFields
  readonly after: EntityFields
  /** Number of ancestors in the file: parents are written first. */
  readonly depth: number
}

export type EntitySource = 'manifest' | 'import'

/** `same`: matches the file, or is only needed as a parent; the record is not kept. */
export type LiveEntities = ReadonlyMap<string, EntityRecord | 'same'>

/** Limits copied for a boost are not configured: if stated, they are new. */
export const withoutCopy = (record: ConfigRecord | undefined): ConfigRecord | undefined => countingAt(record, Infinity)

export function limitsWithoutBoosts(record: ConfigRecord | undefined): Limit[] {
  return (withoutCopy(record)?.limits ?? []).map(baseOf)
}

import type {Limit} from '../core/limit.js'
import type {OnUnavailable} from '../schema/config-record.js'
import type {Json} from '../schema/json-attribute.js'

/** The limits that one namespace shall have, as a file states them. Limits are sorted by name. */
export interface Manifest {
  /** The name, not the id. */
  readonly namespace: string
  readonly system: ManifestSystem | undefined
  readonly resources: ReadonlyMap<string, readonly Limit[]>
  readonly entities: ReadonlyMap<string, ManifestEntity>
}

export interface ManifestSystem {
  readonly limits: readonly Limit[]
  /** The stored policy stays when absent. */
  readonly onUnavailable: OnUnavailable | undefined
}

/** What a file states about an entity; what is absent stays as it is. */
export interface ManifestEntity {
  readonly name?: string
  /** `null` for no parent. */
  readonly parent?: string | null
  readonly cascade?: boolean
  readonly metadata?: {readonly [key: string]: Json}
  /** By resource; the entity's default is `_default_`. */
  readonly limits: ReadonlyMap<string, readonly Limit[]>
}

/** Whether the file states anything that is kept in the record of the entity. */
export function statesRecord({name, parent, cascade, metadata}: ManifestEntity): boolean {
  return name !== undefined || parent !== undefined || cascade !== undefined || metadata !== undefined
}

/** By code unit, as the table sorts. */
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

import type {NamespaceRepository} from '../repository/repository.js'
import type {ReadOptions} from './live-state.js'
import type {Manifest} from './manifest.js'
import {type PlannedChange, planManifest} from './plan.js'

/** One way in which the table is not as the file states it. */
export interface ManifestDifference {
  /** Stated and not there; there with other values; there and managed, but no longer stated. */
  readonly kind: 'missing' | 'changed' | 'extra'
  /** The change that would end it: `before` is the table, `after` the file. */
  readonly change: PlannedChange
}

const KINDS = {create: 'missing', update: 'changed', delete: 'extra'} as const

/** Where the table differs from a manifest now, whoever changed it; reads only. Empty: no drift. */
export async function diffManifest(
  repository: NamespaceRepository,
  manifest: Manifest,
  options: ReadOptions = {},
): Promise<ManifestDifference[]> {
  const {changes} = await planManifest(repository, manifest, options)
  return changes.map(change => ({kind: KINDS[change.action], change}))
}

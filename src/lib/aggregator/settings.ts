import {DEFAULT_MAX_SHARDS} from '../core/buckets/shards.js'
import {WINDOWS, type Window} from '../core/window.js'

export interface AggregatorSettings {
  readonly windows: readonly Window[]
  /** From a usage record's first write; 0: no expiry. */
  readonly retentionDays: number
  readonly maxShards: number
}

export const DEFAULT_SETTINGS: AggregatorSettings = {
  windows: WINDOWS,
  retentionDays: 90,
  maxShards: DEFAULT_MAX_SHARDS,
}

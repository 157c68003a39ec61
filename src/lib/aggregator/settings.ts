import {InvalidInput} from '../core/errors.js'
import {DEFAULT_MAX_SHARDS} from '../core/shard-growth.js'
import {WINDOWS, type Window} from '../core/window.js'

/** What an aggregator is to do. */
export interface AggregatorSettings {
  /** Spans over which usage is counted. */
  readonly windows: readonly Window[]
  /** Days that a usage record is kept, from its first write on; 0: for ever. */
  readonly retentionDays: number
  readonly maxShards: number
}

export const DEFAULT_SETTINGS: AggregatorSettings = {
  windows: WINDOWS,
  retentionDays: 90,
  maxShards: DEFAULT_MAX_SHARDS,
}

/** What the function's environment says. */
export interface LambdaSettings extends AggregatorSettings {
  readonly tableName: string
  /** Where expired audit events go; `undefined`: nowhere. */
  readonly archiveBucket: string | undefined
}

/** Every wrong value is told at start, not at the first record. */
export function parseLambdaSettings(env: Readonly<Record<string, string | undefined>>): LambdaSettings {
  const given = (name: string) => env[name]?.trim() || undefined
  const tableName = given('TABLE_NAME')
  if (tableName === undefined) throw wrong('TABLE_NAME', undefined, 'the name of the table')
  const archival = given('ENABLE_ARCHIVAL') ?? 'false'
  if (archival !== 'true' && archival !== 'false') throw wrong('ENABLE_ARCHIVAL', archival, 'true or false')
  const archiveBucket = archival === 'true' ? given('ARCHIVE_BUCKET_NAME') : undefined
  if (archival === 'true' && archiveBucket === undefined) {
    throw wrong('ARCHIVE_BUCKET_NAME', undefined, 'the name of a bucket, because ENABLE_ARCHIVAL is true')
  }
  return {
    ...DEFAULT_SETTINGS,
    tableName,
    archiveBucket,
    windows: parseWindows(given('SNAPSHOT_WINDOWS')),
    retentionDays: parseDays(given('SNAPSHOT_TTL_DAYS')),
  }
}

function parseWindows(text: string | undefined): readonly Window[] {
  if (text === undefined) return DEFAULT_SETTINGS.windows
  const names = text.split(',').map(name => name.trim())
  const windows = WINDOWS.filter(window => names.includes(window))
  const isKnown = (name: string) => windows.some(window => window === name)
  if (!names.every(isKnown)) throw wrong('SNAPSHOT_WINDOWS', text, `some of ${WINDOWS.join(', ')}, separated by commas`)
  return windows
}

function parseDays(text: string | undefined): number {
  if (text === undefined) return DEFAULT_SETTINGS.retentionDays
  if (!/^\d{1,5}$/.test(text)) throw wrong('SNAPSHOT_TTL_DAYS', text, 'a number of days, or 0 to keep them for ever')
  return Number(text)
}

function wrong(name: string, value: string | undefined, expected: string): InvalidInput {
  const what = value === undefined ? `${name} is not set` : `${name} is "${value}"`
  return new InvalidInput('aggregator.settings', `${what}; it must be ${expected}.`, {
    hint: `Set ${name} in the environment of the function.`,
    details: {name},
  })
}

import {InvalidInput} from '../core/errors.js'
import {DEFAULT_MAX_SHARDS} from '../core/shard-growth.js'
import {WINDOWS, type Window} from '../core/window.js'

/** How an aggregator works. */
export interface AggregatorSettings {
  /** Windows in which usage is counted. */
  readonly windows: readonly Window[]
  /** Days that a usage record is kept, from its first write; 0: no expiry. */
  readonly retentionDays: number
  readonly maxShards: number
}

export const DEFAULT_SETTINGS: AggregatorSettings = {
  windows: WINDOWS,
  retentionDays: 90,
  maxShards: DEFAULT_MAX_SHARDS,
}

/** The same for the Lambda function, from its environment. */
interface LambdaSettings extends AggregatorSettings {
  readonly tableName: string
  /** S3 bucket for expired audit events; `undefined`: they are not archived. */
  readonly archiveBucket: string | undefined
}

/** Throws on a wrong value at start, not at the first record. */
export function parseLambdaSettings(env: Readonly<Record<string, string | undefined>>): LambdaSettings {
  const read = (name: string) => env[name]?.trim() || undefined
  const tableName = read('TABLE_NAME')
  if (tableName === undefined) throw invalid('TABLE_NAME', undefined, 'the name of the table')
  const archival = read('ENABLE_ARCHIVAL') ?? 'false'
  if (archival !== 'true' && archival !== 'false') throw invalid('ENABLE_ARCHIVAL', archival, 'true or false')
  const archiveBucket = archival === 'true' ? read('ARCHIVE_BUCKET_NAME') : undefined
  if (archival === 'true' && archiveBucket === undefined) {
    throw invalid('ARCHIVE_BUCKET_NAME', undefined, 'the name of a bucket, because ENABLE_ARCHIVAL is true')
  }
  return {
    ...DEFAULT_SETTINGS,
    tableName,
    archiveBucket,
    windows: parseWindows(read('SNAPSHOT_WINDOWS')),
    retentionDays: parseDays(read('SNAPSHOT_TTL_DAYS')),
  }
}

function parseWindows(text: string | undefined): readonly Window[] {
  if (text === undefined) return DEFAULT_SETTINGS.windows
  const names = text.split(',').map(name => name.trim())
  const windows = WINDOWS.filter(window => names.includes(window))
  const isKnown = (name: string) => windows.some(window => window === name)
  if (!names.every(isKnown))
    throw invalid('SNAPSHOT_WINDOWS', text, `some of ${WINDOWS.join(', ')}, separated by commas`)
  return windows
}

function parseDays(text: string | undefined): number {
  if (text === undefined) return DEFAULT_SETTINGS.retentionDays
  if (!/^\d{1,5}$/.test(text)) throw invalid('SNAPSHOT_TTL_DAYS', text, 'a number of days, or 0 for no expiry')
  return Number(text)
}

function invalid(name: string, value: string | undefined, expected: string): InvalidInput {
  const what = value === undefined ? `${name} is not set` : `${name} is "${value}"`
  return new InvalidInput('aggregator.settings', `${what}; it must be ${expected}.`, {
    hint: `Set ${name} in the environment of the function.`,
    details: {name},
  })
}

// `zod/mini` here and in the aggregator: it adds 32 KiB to a bundle of 634 KiB; plain zod alone has 459 KiB.
import * as z from 'zod/mini'
import {DEFAULT_MAX_SHARDS} from '../core/buckets/shards.js'
import {InvalidInput} from '../core/errors.js'
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

interface LambdaSettings extends AggregatorSettings {
  readonly tableName: string
  /** For expired audit events; `undefined`: not archived. */
  readonly archiveBucket: string | undefined
}

const wordsOf = (text: string): string[] => text.split(',').map(word => word.trim())

const isWindowList = (text: string): boolean => wordsOf(text).every(word => WINDOWS.some(window => window === word))

/** Messages complete "it must be …". Ignores AWS's own variables. */
const environmentSchema = z
  .object({
    TABLE_NAME: z.string('the name of the table'),
    SNAPSHOT_WINDOWS: z.optional(
      z.string().check(z.refine(isWindowList, `some of ${WINDOWS.join(', ')}, separated by commas`)),
    ),
    SNAPSHOT_TTL_DAYS: z.optional(z.string().check(z.regex(/^\d{1,5}$/, 'a number of days, or 0 for no expiry'))),
    ENABLE_ARCHIVAL: z.optional(z.enum(['true', 'false'], 'true or false')),
    ARCHIVE_BUCKET_NAME: z.optional(z.string()),
  })
  .check(
    z.refine(env => env.ENABLE_ARCHIVAL !== 'true' || env.ARCHIVE_BUCKET_NAME !== undefined, {
      path: ['ARCHIVE_BUCKET_NAME'],
      error: 'the name of a bucket, because ENABLE_ARCHIVAL is true',
      // Also if another variable is wrong, to report all problems at once.
      when: () => true,
    }),
  )

/** Throws on invalid values at start, not at the first record. Blank variables count as unset. */
export function parseLambdaSettings(env: Readonly<Record<string, string | undefined>>): LambdaSettings {
  const names = Object.keys(environmentSchema.shape)
  const given = Object.fromEntries(names.map(name => [name, env[name]?.trim() || undefined]))
  const {data, error} = environmentSchema.safeParse(given)
  if (error) throw invalid(error.issues, given)
  const {SNAPSHOT_WINDOWS, SNAPSHOT_TTL_DAYS, ENABLE_ARCHIVAL, ARCHIVE_BUCKET_NAME} = data
  const named = SNAPSHOT_WINDOWS === undefined ? undefined : wordsOf(SNAPSHOT_WINDOWS)
  return {
    ...DEFAULT_SETTINGS,
    tableName: data.TABLE_NAME,
    archiveBucket: ENABLE_ARCHIVAL === 'true' ? ARCHIVE_BUCKET_NAME : undefined,
    ...(named && {windows: WINDOWS.filter(window => named.includes(window))}),
    ...(SNAPSHOT_TTL_DAYS !== undefined && {retentionDays: Number(SNAPSHOT_TTL_DAYS)}),
  }
}

function invalid(
  issues: readonly z.core.$ZodIssue[],
  given: Readonly<Record<string, string | undefined>>,
): InvalidInput {
  const problems = issues.map(({path, message}) => {
    const name = String(path[0])
    const what = given[name] === undefined ? `${name} is not set` : `${name} is "${given[name]}"`
    return {name, text: `${what}; it must be ${message}.`}
  })
  const names = problems.map(({name}) => name)
  return new InvalidInput('aggregator.settings', problems.map(({text}) => text).join(' '), {
    hint: `Set ${names.join(' and ')} in the environment of the function.`,
    details: {name: names[0], names},
  })
}

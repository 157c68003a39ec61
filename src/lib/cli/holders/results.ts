import * as z from 'zod'
import {strictObject} from 'zod'
import {count, type ResultOf, textOrNull} from '../output/results.js'

const holderShape = {
  id: z.string(),
  host: textOrNull,
  pid: z.int().nullable(),
  startedAt: textOrNull.describe('UTC, ISO 8601'),
  beatAt: textOrNull.describe('Last beat by the clock of its process, or when it was declared dead; UTC, ISO 8601'),
  isDead: z.boolean().describe('Declared dead: others return its slots and reserved tokens'),
}

export const inFlightShape = {
  limit: z.string(),
  capacity: count,
  free: z.int().describe('Negative after the capacity was lowered'),
  inUse: count,
  holders: z
    .array(
      strictObject({...holderShape, slots: z.int().min(1)})
        .describe('Host, pid and times are null if the process has no record')
        .meta({id: 'SlotHolder'}),
    )
    .describe('Most slots first'),
}

export const inFlightSchema = z
  .array(strictObject(inFlightShape).meta({id: 'InFlightLevel'}))
  .describe('In-flight limits, in slots')
export type InFlightJson = ResultOf<typeof inFlightSchema>

export const reservedBySchema = z
  .array(
    strictObject({...holderShape, tokens: count})
      .describe('Host, pid and times are null if the process has no record')
      .meta({id: 'ReservedBy'}),
  )
  .describe(
    'Processes whose open leases reserved tokens of this quota, most first; they come back if the process dies. Read only ' +
      'while the quota refuses or refused recently',
  )
export type ReservedByJson = ResultOf<typeof reservedBySchema>

const heldBucketsSchema = z.array(
  strictObject({
    entity: z.string(),
    resource: z.string(),
    slots: z.record(z.string(), z.int().min(1)).describe('By limit'),
  }).meta({id: 'HeldBucket'}),
)

const reservedSchema = z.array(
  strictObject({
    entity: z.string(),
    resource: z.string(),
    tokens: z.record(z.string(), count).describe('Whole tokens by limit'),
  }).meta({id: 'ReservedTokens'}),
)

export const holdersListResult = strictObject({
  holders: z.array(
    strictObject({
      ...holderShape,
      state: z
        .enum(['unknown', 'alive', 'silent', 'dead'])
        .describe(
          'unknown: not compared (--wait); alive: it beat while compared; silent: it did not, so its process is dead or ' +
            'holds nothing; dead: declared dead',
        ),
      buckets: heldBucketsSchema.nullable().describe('Buckets of which it holds slots; null without --slots'),
      reserved: reservedSchema
        .nullable()
        .describe('Quota tokens that come back if it dies, by bucket; null without --slots'),
    }),
  ),
  next: textOrNull.describe('Cursor of the next page'),
}).meta({title: 'zael holders list'})
export type HoldersListResult = ResultOf<typeof holdersListResult>

export const holdersReleaseResult = strictObject({
  holder: z.string(),
  host: textOrNull,
  pid: z.int().nullable(),
  wasDead: z.boolean().describe('It was declared dead before'),
  returned: heldBucketsSchema.describe('Slots returned by this command; empty if it held none'),
  reserved: reservedSchema.describe('Reserved tokens returned by this command, without those of a former period'),
}).meta({title: 'zael holders release'})
export type HoldersReleaseResult = ResultOf<typeof holdersReleaseResult>

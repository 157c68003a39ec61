import * as z from 'zod'
import {strictObject} from 'zod'
import {inFlightSchema} from '../holders/results.js'
import {count, quotaLevelShape, type ResultOf, textOrNull} from '../output/results.js'

const bucketLimitSchema = strictObject({
  name: z.string(),
  level: z.number().describe('Tokens now; below zero in debt'),
  capacity: z.number(),
  debt: z.number(),
  refillPerSecond: z.number(),
  ...quotaLevelShape,
}).meta({id: 'BucketLimit'})

const bucketShardSchema = strictObject({
  shard: z.int(),
  isGhost: z.boolean().describe('Remains of a deleted shard'),
  limits: z.array(bucketLimitSchema),
  incomplete: z.array(z.string()).describe('Limits without parameters'),
  writePressure: z.number().nullable().describe('Part of 1,000 writes per second in use'),
  writes: z.number().describe('Writes since the item was created'),
  refilledAt: textOrNull,
  refillAgeMs: z.number().nullable(),
  expiresAt: textOrNull,
}).meta({id: 'BucketShard'})

const bucketSchema = strictObject({
  entity: z.string(),
  resource: z.string(),
  parent: textOrNull,
  cascade: z.boolean(),
  shardCount: z.int(),
  isDisabled: z.boolean().describe('Whether a switch refuses every request'),
  bypassedUntil: textOrNull.describe(
    'A switch admits every request at least until then; UTC, ISO 8601. Null: limits apply.',
  ),
  limits: z.array(bucketLimitSchema).describe('All shards together'),
  shards: z.array(bucketShardSchema),
}).meta({id: 'Bucket'})

export const bucketListResult = strictObject({
  resource: z.string(),
  buckets: z.array(bucketSchema),
  next: textOrNull.describe('Cursor of the next page'),
}).meta({title: 'zael bucket list'})
export type BucketListResult = ResultOf<typeof bucketListResult>

const operationShape = {
  entity: z.string(),
  resource: z.string(),
  idempotencyKey: z.string().describe('Repetitions with this key change nothing for three days'),
  isRepeated: z.boolean().describe('The key was already used; nothing was changed'),
}

export const bucketResetResult = strictObject({
  ...operationShape,
  shards: z.int(),
  reset: z.int().describe('Shards filled by this command'),
  ghosts: z.int(),
  amounts: z.record(z.string(), z.int()).describe('Restored whole tokens, by limit'),
}).meta({title: 'zael bucket reset'})
export type BucketResetResult = ResultOf<typeof bucketResetResult>

export const bucketTopUpResult = strictObject({
  ...operationShape,
  shards: z.int().describe('Written shards; 0 when an unused bucket starts full'),
  asked: z.record(z.string(), z.int().min(1)).describe('Whole tokens, by limit'),
  amounts: z
    .record(z.string(), count)
    .describe('Added whole tokens, by limit; less than asked when a rate reaches its capacity'),
}).meta({title: 'zael bucket top-up'})
export type BucketTopUpResult = ResultOf<typeof bucketTopUpResult>

export const bucketShowResult = strictObject({
  entity: z.string(),
  buckets: z.array(bucketSchema.extend({inFlight: inFlightSchema}).meta({id: 'BucketWithSlots'})),
}).meta({title: 'zael bucket show'})
export type BucketShowResult = ResultOf<typeof bucketShowResult>

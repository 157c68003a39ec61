import {strictObject, z} from 'zod'
import {
  count,
  limitKindShape,
  listOf,
  type ResultOf,
  scopeSchema,
  sharedChargeSchema,
  textOrNull,
} from '../output/results.js'
import {limitRefusedSchema} from '../usage/results.js'

export const acquireResult = strictObject({
  entity: z.string(),
  resource: z.string(),
  consume: z.record(z.string(), z.int().min(1)),
  dryRun: z.boolean(),
  admitted: z.boolean(),
  metered: z.boolean().describe('False when the table was out of reach and the policy let the request through'),
  bypassed: z.boolean().describe('A switch lets the entity pass: the request is counted, and nothing taken from it'),
  parent: textOrNull.describe('Charged too, or refusing'),
  waitedMs: count,
  retryAfterMs: count.nullable().describe('0 when admitted; null when waiting never helps'),
  limits: listOf({
    name: z.string(),
    level: z.enum(['entity', 'parent']),
    entity: z.string(),
    requested: count,
    available: z.int().describe('Whole tokens left; negative in debt'),
    capacity: count,
    exceeded: z.boolean(),
    retryAfterMs: count.nullable().describe('null when waiting never helps'),
  }),
}).meta({title: 'zael acquire'})
export type AcquireResult = ResultOf<typeof acquireResult>

const remedySchema = strictObject({command: z.string(), purpose: z.string()})

const switchSchema = strictObject({
  entity: z.string().describe('The entity asked about, or its parent'),
  setFor: scopeSchema,
  remedies: z.array(remedySchema),
})

const whyOneResult = strictObject({
  entity: z.string(),
  resource: z.string(),
  registered: z.boolean().describe('Whether the entity has a record'),
  name: textOrNull.describe('Of the entity; null where it has none but its id'),
  parent: textOrNull.describe('Shares every charge'),
  cascade: sharedChargeSchema,
  at: z.string().describe('UTC, ISO 8601'),
  hour: z.string().describe('Start of the hour that drainedBy is about'),
  admitted: z.boolean(),
  retryAfterMs: count.nullable().describe('0 when there is room; null when waiting never helps'),
  clearsAt: textOrNull.describe('UTC, ISO 8601; null when waiting never helps'),
  disabled: switchSchema.nullable().describe('The switch that refuses every request; then no limits are listed'),
  bypassed: z
    .array(switchSchema)
    .describe('Switches that admit every request and only count it: of the entity, of its parent'),
  request: z
    .enum(['asked', 'typical', 'one-token'])
    .describe('What is explained: as asked, the average request of the bucket, or one token of each limit'),
  refused: strictObject({
    requests: z.number().describe('Refused by limits of the entity itself, each request once'),
    byParent: z.number().describe('Refused by its parent alone'),
    since: z.string().describe('Start of the hour from which they are counted, UTC'),
    lastAt: textOrNull.describe('UTC, ISO 8601; null when there is none'),
  }).describe('Requests that limiters of zael refused lately'),
  limits: listOf({
    name: z.string(),
    level: z.enum(['entity', 'parent']),
    entity: z.string(),
    setFor: scopeSchema,
    text: z.string().describe('As `zael limits set` reads it'),
    capacity: z.int().min(1),
    refillAmount: count,
    refillPeriodSeconds: z.int().min(1),
    ...limitKindShape,
    toppedUp: z.int().min(1).optional().describe('Added to a quota until its reset; the capacity includes it'),
    resetsAt: z.string().optional().describe('UTC, ISO 8601; when a quota of the calendar is full again'),
    told: strictObject({
      at: z.string().describe('UTC, ISO 8601'),
      left: count.optional().describe('Whole tokens that were left'),
      clearsAt: z.string().optional().describe('UTC, ISO 8601; from when a request that was refused is admitted'),
    })
      .optional()
      .describe('What a provider has told last that lowered the balance'),
    available: z.int().describe('Whole tokens left over all shards; negative in debt'),
    requested: z.int().min(1),
    deficit: count,
    exceeded: z.boolean(),
    retryAfterMs: count.nullable().describe('0 when there is room; null when waiting never helps'),
    clearsAt: textOrNull.describe('UTC, ISO 8601; null when waiting never helps'),
    refused: limitRefusedSchema,
    shards: listOf({
      shard: count,
      available: z.int(),
      capacity: count,
    }),
    drainedBy: listOf({
      entity: z.string(),
      tokens: z.int().min(1),
    }).describe('Children that share their charges, most first; only where the limit is exceeded'),
    remedies: z.array(remedySchema),
  }),
})
export type WhyOneResult = ResultOf<typeof whyOneResult>

const whyAllResult = strictObject({
  entity: z.string(),
  at: z.string().describe('UTC, ISO 8601'),
  admitted: z.boolean().describe('Whether the request of every resource has room'),
  resources: z.array(whyOneResult).describe('All resources that the entity uses or has limits for, worst first'),
})
export type WhyAllResult = ResultOf<typeof whyAllResult>

export const whyResult = z.union([whyOneResult, whyAllResult]).meta({title: 'zael why'})
export type WhyResult = ResultOf<typeof whyResult>

import {z} from 'zod'
import {limitKindShape, type ResultOf, scopeSchema, sharedChargeSchema} from '../output/results.js'
import {limitRefusedSchema} from '../usage/results.js'

export const acquireResult = z
  .strictObject({
    entity: z.string(),
    resource: z.string(),
    consume: z.record(z.string(), z.int().min(1)),
    dryRun: z.boolean(),
    admitted: z.boolean(),
    metered: z.boolean().describe('False when the table was out of reach and the policy let the request through'),
    bypassed: z.boolean().describe('A switch lets the entity pass: the request is counted, and nothing taken from it'),
    parent: z.string().nullable().describe('Charged too, or refusing'),
    waitedMs: z.int().min(0),
    retryAfterMs: z.int().min(0).nullable().describe('0 when admitted; null when waiting never helps'),
    limits: z.array(
      z.strictObject({
        name: z.string(),
        level: z.enum(['entity', 'parent']),
        entity: z.string(),
        requested: z.int().min(0),
        available: z.int().describe('Whole tokens left; negative in debt'),
        capacity: z.int().min(0),
        exceeded: z.boolean(),
        retryAfterMs: z.int().min(0).nullable().describe('null when waiting never helps'),
      }),
    ),
  })
  .meta({title: 'zael acquire'})
export type AcquireResult = ResultOf<typeof acquireResult>

const remedySchema = z.strictObject({command: z.string(), purpose: z.string()})

const switchSchema = z.strictObject({
  entity: z.string().describe('The entity asked about, or its parent'),
  setFor: scopeSchema,
  remedies: z.array(remedySchema),
})

const whyOneResult = z.strictObject({
  entity: z.string(),
  resource: z.string(),
  registered: z.boolean().describe('Whether the entity has a record'),
  name: z.string().nullable().describe('Of the entity; null where it has none but its id'),
  parent: z.string().nullable().describe('Shares every charge'),
  cascade: sharedChargeSchema,
  at: z.string().describe('UTC, ISO 8601'),
  hour: z.string().describe('Start of the hour that drainedBy is about'),
  admitted: z.boolean(),
  retryAfterMs: z.int().min(0).nullable().describe('0 when there is room; null when waiting never helps'),
  clearsAt: z.string().nullable().describe('UTC, ISO 8601; null when waiting never helps'),
  disabled: switchSchema.nullable().describe('The switch that refuses every request; then no limits are listed'),
  bypassed: z
    .array(switchSchema)
    .describe('Switches that admit every request and only count it: of the entity, of its parent'),
  request: z
    .enum(['asked', 'typical', 'one-token'])
    .describe('What is explained: as asked, the average request of the bucket, or one token of each limit'),
  refused: z
    .strictObject({
      requests: z.number().describe('Refused by limits of the entity itself, each request once'),
      byParent: z.number().describe('Refused by its parent alone'),
      since: z.string().describe('Start of the hour from which they are counted, UTC'),
      lastAt: z.string().nullable().describe('UTC, ISO 8601; null when there is none'),
    })
    .describe('Requests that limiters of zael refused lately'),
  limits: z.array(
    z.strictObject({
      name: z.string(),
      level: z.enum(['entity', 'parent']),
      entity: z.string(),
      setFor: scopeSchema,
      text: z.string().describe('As `zael limits set` reads it'),
      capacity: z.int().min(1),
      refillAmount: z.int().min(0),
      refillPeriodSeconds: z.int().min(1),
      ...limitKindShape,
      toppedUp: z.int().min(1).optional().describe('Added to a quota until its reset; the capacity includes it'),
      resetsAt: z.string().optional().describe('UTC, ISO 8601; when a quota of the calendar is full again'),
      told: z
        .strictObject({
          at: z.string().describe('UTC, ISO 8601'),
          left: z.int().min(0).optional().describe('Whole tokens that were left'),
          clearsAt: z.string().optional().describe('UTC, ISO 8601; from when a request that was refused is admitted'),
        })
        .optional()
        .describe('What a provider has told last that lowered the balance'),
      available: z.int().describe('Whole tokens left over all shards; negative in debt'),
      requested: z.int().min(1),
      deficit: z.int().min(0),
      exceeded: z.boolean(),
      retryAfterMs: z.int().min(0).nullable().describe('0 when there is room; null when waiting never helps'),
      clearsAt: z.string().nullable().describe('UTC, ISO 8601; null when waiting never helps'),
      refused: limitRefusedSchema,
      shards: z.array(
        z.strictObject({
          shard: z.int().min(0),
          available: z.int(),
          capacity: z.int().min(0),
        }),
      ),
      drainedBy: z
        .array(
          z.strictObject({
            entity: z.string(),
            tokens: z.int().min(1),
          }),
        )
        .describe('Children that share their charges, most first; only where the limit is exceeded'),
      remedies: z.array(remedySchema),
    }),
  ),
})
export type WhyOneResult = ResultOf<typeof whyOneResult>

const whyAllResult = z.strictObject({
  entity: z.string(),
  at: z.string().describe('UTC, ISO 8601'),
  admitted: z.boolean().describe('Whether the request of every resource has room'),
  resources: z.array(whyOneResult).describe('All resources that the entity uses or has limits for, worst first'),
})
export type WhyAllResult = ResultOf<typeof whyAllResult>

export const whyResult = z.union([whyOneResult, whyAllResult]).meta({title: 'zael why'})
export type WhyResult = ResultOf<typeof whyResult>

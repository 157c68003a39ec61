import * as z from 'zod'
import {strictObject} from 'zod'
import {inFlightShape, reservedBySchema} from '../holders/results.js'
import {
  count,
  limitKindShape,
  listOf,
  type ResultOf,
  scopeSchema,
  sharedChargeSchema,
  switchEndShape,
  switchSetShape,
  textOrNull,
} from '../output/results.js'
import {limitRefusedSchema} from '../usage/results.js'

export const acquireResult = strictObject({
  entity: z.string(),
  resource: z.string(),
  consume: z.record(z.string(), z.int().min(1)),
  dryRun: z.boolean(),
  admitted: z.boolean(),
  metered: z.boolean().describe('False when the table was unavailable and the policy admitted the request'),
  bypassed: z.boolean().describe('A switch bypasses the limits: the request is counted, not charged'),
  parent: textOrNull.describe('Parent that is also charged, or refuses'),
  parents: z.array(z.string()).describe('All parents that are also charged, or refuse; nearest first'),
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
    retryAfterMs: count.nullable().describe('Null when waiting never helps'),
  }),
}).meta({title: 'zael acquire'})
export type AcquireResult = ResultOf<typeof acquireResult>

const remedySchema = strictObject({command: z.string(), purpose: z.string()})

const switchSchema = strictObject({
  entity: z.string().describe('The entity asked about, or its parent'),
  setFor: scopeSchema,
  ...switchEndShape,
  ...switchSetShape,
  remedies: z.array(remedySchema),
})

const whyOneResult = strictObject({
  entity: z.string(),
  resource: z.string(),
  registered: z.boolean().describe('Whether the entity has a record'),
  known: z.boolean().describe('Whether a record, limits, a bucket or usage of the entity is stored'),
  name: textOrNull.describe('Display name of the entity; null when it equals the id'),
  parent: textOrNull.describe('Parent that every request also charges'),
  parents: z.array(z.string()).describe('All parents that every request also charges; nearest first'),
  cascade: sharedChargeSchema,
  at: z.string().describe('UTC, ISO 8601'),
  hour: z.string().describe('Start of the hour covered by drainedBy'),
  admitted: z.boolean(),
  retryAfterMs: count.nullable().describe('0 when admitted; null when waiting never helps'),
  clearsAt: textOrNull.describe('UTC, ISO 8601; null when waiting never helps'),
  disabled: switchSchema.nullable().describe('The switch that refuses every request; limits is then empty'),
  bypassed: z.array(switchSchema).describe('Bypass switches of the entity and its parent'),
  request: z
    .enum(['asked', 'typical', 'per-write', 'one-token'])
    .describe(
      'The explained request: as given, the average admitted request, the average write of clients that count no ' +
        'requests, or one token of each limit if the average is unknown',
    ),
  refused: strictObject({
    requests: z.number().describe('Refused by limits of the entity itself, each request once'),
    byParent: z.number().describe('Refused only by its parent; also counted there'),
    byProvider: listOf({
      entity: z.string(),
      resource: z.string(),
      requests: z.number(),
    }).describe('Refused only by shared scopes, such as provider accounts, most first; also counted there'),
    beganAt: textOrNull.describe('When the refusals began, some seconds late at most; null if only the hour is known'),
    beganInHour: textOrNull.describe('Start of that hour, UTC; null without refusals'),
    since: z.string().describe('When the refusals began, else start of the first counted hour, UTC'),
    lastAt: textOrNull.describe('UTC, ISO 8601; null without refusals'),
  }).describe('Recently refused requests'),
  unsettled: strictObject({
    settlements: count,
    lastAt: z.string().describe('UTC, ISO 8601'),
  })
    .nullable()
    .describe('Settlements given up since the bucket was created: their leases may stay charged as reserved'),
  recent: strictObject({
    since: z.string().describe('Start of the first counted hour, UTC'),
    admitted: z.number().describe('Recorded requests; writes of clients that count no requests'),
    refused: z.number().describe('By its own limits, its parent or a shared scope'),
    share: z
      .number()
      .nullable()
      .describe('Refused fraction; includes requests admitted after changedAt; null without requests'),
    changedAt: textOrNull.describe('When limits or a switch were changed after the last refusal, UTC, ISO 8601'),
  }).describe('Requests of at least the last 10 minutes'),
  limits: listOf({
    name: z.string(),
    level: z
      .enum(['entity', 'parent', 'provider'])
      .describe('provider: a shared scope, such as a provider account, that recently refused requests of the entity'),
    entity: z.string(),
    resource: z.string(),
    setFor: scopeSchema,
    text: z.string().describe('In the syntax of `zael limits set`'),
    capacity: z.int().min(1),
    refillAmount: count,
    refillPeriodSeconds: z.int().min(1),
    ...limitKindShape,
    toppedUp: z.int().min(1).optional().describe('Added to a quota until its reset; the capacity includes it'),
    resetsAt: z.string().optional().describe('Next reset of a quota; absent if no session is open; UTC, ISO 8601'),
    feedback: strictObject({
      at: z.string().describe('UTC, ISO 8601'),
      left: count.optional().describe('Whole tokens left'),
      clearsAt: z.string().optional().describe('When refused requests are admitted again; UTC, ISO 8601'),
      inForce: z
        .boolean()
        .describe('It still lowers the balance: refilling the bucket would lead to 429s of the provider'),
    })
      .optional()
      .describe('Latest provider feedback that lowered the balance'),
    available: z.int().describe('Whole tokens left over all shards; negative in debt'),
    requested: z.int().min(1),
    deficit: count,
    exceeded: z.boolean(),
    retryAfterMs: count.nullable().describe('0 when admitted; null when waiting never helps'),
    clearsAt: textOrNull.describe('UTC, ISO 8601; null when waiting never helps'),
    refused: limitRefusedSchema,
    refusedSince: z
      .string()
      .describe('Start of these counts, UTC: when requests of this entity began to be refused, if known'),
    shards: listOf({
      shard: count,
      available: z.int(),
      capacity: count,
    }),
    drainedBy: listOf({
      entity: z.string(),
      tokens: z.int().min(1),
    }).describe('Children that charge this limit, largest first; only when it is exceeded'),
    drainedByOthers: count.describe(
      'Other tokens charged to it in that hour: its own, of smaller children, and of children that moved or were deleted',
    ),
    reservedBy: reservedBySchema,
    callers: listOf({
      entity: z.string(),
      resource: z.string(),
      requests: z.number().describe('Refused by this account in the hours since recent.since'),
      tokens: z.number().describe('Charged to the caller for the limit of this name, through any account'),
    })
      .optional()
      .describe('Callers that a shared scope refused, most tokens first; only if this limit refused'),
    remedies: z
      .array(remedySchema)
      .describe('Empty for a shared scope and while provider feedback is in force: wait, or ask the provider'),
  }),
  inFlight: listOf({
    ...inFlightShape,
    level: z.enum(['entity', 'parent']),
    entity: z.string(),
    resource: z.string(),
    setFor: scopeSchema,
    text: z.string().describe('In the syntax of `zael limits set`'),
    requested: count,
    exceeded: z.boolean(),
    retryAfterMs: count.nullable().describe('An estimate; 0 when admitted; null when waiting never helps'),
    remedies: z.array(remedySchema),
  }).describe('In-flight limits, in slots'),
})
export type WhyOneResult = ResultOf<typeof whyOneResult>

const whyAllResult = strictObject({
  entity: z.string(),
  at: z.string().describe('UTC, ISO 8601'),
  admitted: z.boolean().describe('Whether every request is admitted'),
  disabled: switchSchema.nullable().describe('Switch that disables every resource not listed in resources'),
  resources: z.array(whyOneResult).describe('Resources that the entity uses or has limits for, worst first'),
})
export type WhyAllResult = ResultOf<typeof whyAllResult>

export const whyResult = z.union([whyOneResult, whyAllResult]).meta({title: 'zael why'})
export type WhyResult = ResultOf<typeof whyResult>

import * as z from 'zod'
import {strictObject} from 'zod'
import type {DeepReadonly} from '../../core/deep-readonly.js'
import {KINDS} from './kind-counts.js'

/** Commands import only these types, so zod is not loaded when they run. */
export type ResultOf<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>

/** The result of a command that already printed its documents, one per line. */
export type Streamed = Readonly<Record<string, never>>

export const count = z.int().min(0)

export const textOrNull = z.string().nullable()

export const listOf = <Shape extends z.ZodRawShape>(shape: Shape) => z.array(strictObject(shape))

/** An object with the keys of `keys`, each with the same schema. */
export const sameShape = <Key extends string, Value extends z.ZodType>(
  keys: Readonly<Record<Key, unknown>>,
  value: Value,
) => strictObject(Object.fromEntries(Object.keys(keys).map(key => [key, value])) as Record<Key, Value>)

export const onUnavailableSchema = z.enum(['allow', 'block']).nullable().meta({id: 'OnUnavailable'})

export const accessSchema = z
  .enum(['disabled', 'enabled', 'bypass'])
  .nullable()
  .describe('Access of a scope: disabled refuses every request, bypass admits and counts every request')
  .meta({id: 'AccessSwitch'})

/** Of a switch. */
export const switchEndShape = {
  until: textOrNull.describe('When the switch expires, UTC, ISO 8601; null: it stays'),
  reason: textOrNull.describe('Why an operator set it'),
}

export const switchSetShape = {
  setAt: textOrNull.describe('When it was set, UTC, ISO 8601; null: unknown'),
  setBy: textOrNull.describe('Who set it; null: unknown'),
}

export const accessChangeSchema = strictObject({before: accessSchema, after: accessSchema}).meta({id: 'AccessChange'})

export const cascadePolicySchema = z
  .boolean()
  .nullable()
  .describe('Whether requests also charge the parent; null: inherited from the next level or the entity')
  .meta({id: 'CascadePolicy'})

export const cascadePolicyChangeSchema = strictObject({before: cascadePolicySchema, after: cascadePolicySchema}).meta({
  id: 'CascadePolicyChange',
})

export const limitLevelSchema = z.enum(['entity', 'entity_default', 'resource', 'system']).meta({id: 'LimitLevel'})

export const sharedChargeSchema = strictObject({
  charged: z.boolean().describe('Whether every request also charges the parent'),
  level: z
    .enum([...limitLevelSchema.options, 'record'])
    .describe("Level that sets the policy; record: the entity's own cascade"),
})
  .nullable()
  .describe('Null for an entity without a parent')
  .meta({id: 'SharedCharge'})
export type SharedChargeJson = ResultOf<typeof sharedChargeSchema>

const tokenCount = z.int().min(1)

export const limitKindShape = {
  reset: z
    .union([
      strictObject({crons: z.array(z.string()).describe('The quota resets when one of them begins to match')}),
      strictObject({afterSeconds: z.int().min(1).describe('Length of a session from its first use')}),
    ])
    .optional()
    .describe('A quota: does not refill; each reset restores the whole capacity'),
  inFlight: z.literal(true).optional().describe('Concurrency: the capacity is the number of slots; nothing refills'),
  schedule: z
    .array(
      z.union([
        strictObject({cron: z.string(), scale: z.number().describe('Factor of capacity and refill amount')}),
        strictObject({
          cron: z.string(),
          capacity: tokenCount.optional(),
          refillAmount: tokenCount.optional(),
          refillPeriodSeconds: tokenCount.optional(),
        }),
      ]),
    )
    .optional()
    .describe('Parameters while a cron matches; the first match applies'),
  timeZone: z.string().optional().describe('IANA time zone of resets and schedule'),
  soft: z.literal(true).optional().describe('Counted, but never refuses'),
  boost: strictObject({
    capacity: tokenCount,
    refillAmount: count,
    refillPeriodSeconds: tokenCount,
    text: z.string().describe('In the syntax of `zael limits set`'),
    until: z.string().describe('UTC, ISO 8601'),
    ended: z.boolean().describe('True: it expired, but is not removed yet'),
    endsCopy: z
      .boolean()
      .describe(
        'True: the limit is a copy made for the boost and expires with it; the limit of the next level applies then',
      ),
  })
    .optional()
    .describe('Temporary values that apply until an instant; the other keys describe the limit without them'),
  unit: z.string().optional().describe('ISO 4217 currency code; one token is a millionth of the unit'),
} as const

export const limitSchema = strictObject({
  name: z.string(),
  capacity: z.int().min(1).describe('Maximum whole tokens (burst); slots of an in-flight limit'),
  refillAmount: count.describe('Whole tokens per period; 0 for quotas and in-flight limits'),
  refillPeriodSeconds: z.int().min(1),
  text: z.string().describe('In the syntax of `zael limits set`'),
  ...limitKindShape,
}).meta({id: 'Limit'})
export type LimitJson = ResultOf<typeof limitSchema>

export const scopeSchema = strictObject({
  level: limitLevelSchema,
  entity: textOrNull,
  resource: textOrNull.describe("Null for the system, and for an entity's limits on every resource"),
}).meta({id: 'Scope'})
export type ScopeJson = ResultOf<typeof scopeSchema>

export const limitChangeSchema = strictObject({
  name: z.string(),
  before: limitSchema.nullable(),
  after: limitSchema.nullable(),
}).meta({id: 'LimitChange'})
export type LimitChangeJson = ResultOf<typeof limitChangeSchema>

export const onUnavailableChangeSchema = strictObject({
  before: onUnavailableSchema,
  after: onUnavailableSchema,
}).meta({id: 'OnUnavailableChange'})

export const bucketSyncSchema = strictObject({
  checked: count,
  updated: count,
  failed: count,
})
  .describe('Shards of live buckets that the change affects')
  .meta({id: 'BucketSync'})

export const itemCountsSchema = strictObject({
  ...sameShape(KINDS, count).shape,
  operations: count.describe('Records of top-ups and resets'),
  other: count,
  total: count,
})
  .describe('Deleted items; with --dry-run, items to delete')
  .meta({id: 'ItemCounts'})

export const quotaLevelShape = {
  soft: z.literal(true).optional().describe('Only for soft limits, which count and never refuse'),
  quota: z.enum(['calendar', 'session']).optional().describe('Only for quotas, which do not refill between resets'),
  resetsAt: z
    .string()
    .optional()
    .describe('UTC, ISO 8601: next reset of a quota; absent for a session that has not started'),
  toppedUp: z.number().optional().describe('Amount added by top-ups, included in the capacity until the reset'),
  used: z.number().optional().describe('Used amount of a quota in this period; absent if unknown, as with windows'),
}

export const errorResult = strictObject({
  error: strictObject({
    code: z.string().describe('Stable, dotted'),
    kind: z.enum(['failed', 'usage', 'notFound', 'access', 'conflict', 'checkSaidNo', 'interrupted', 'terminated']),
    message: z.string(),
    hint: textOrNull.describe('Suggested next step'),
    details: z.record(z.string(), z.unknown()),
  }),
}).meta({title: 'Failure of any command with --json'})
export type ErrorResult = ResultOf<typeof errorResult>

export const configShowResult = strictObject({
  settings: listOf({
    key: z.enum(['stack', 'namespace', 'region', 'profile', 'endpointUrl', 'output']),
    value: textOrNull,
    source: z.enum(['flag', 'environment', 'project', 'user', 'aws', 'default']),
    from: textOrNull.describe('The flag, the variable, or the file with its line'),
  }),
  files: strictObject({
    project: textOrNull,
    user: textOrNull,
  }),
}).meta({title: 'zael config show'})
export type ConfigShowResult = ResultOf<typeof configShowResult>

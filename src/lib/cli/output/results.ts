import {z} from 'zod'

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? {readonly [Key in keyof T]: DeepReadonly<T[Key]>}
    : T

/** Commands import only these types, so zod is not loaded when they run. */
export type ResultOf<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>

/** The result of a command that already printed its documents, one per line. */
export type Streamed = Readonly<Record<string, never>>

export const onUnavailableSchema = z.enum(['allow', 'block']).nullable().meta({id: 'OnUnavailable'})

export const accessSchema = z
  .enum(['disabled', 'enabled', 'bypass'])
  .nullable()
  .describe('The switch of a scope: disabled refuses every request, bypass admits and only counts it')
  .meta({id: 'AccessSwitch'})

export const accessChangeSchema = z.strictObject({before: accessSchema, after: accessSchema}).meta({id: 'AccessChange'})

export const cascadePolicySchema = z
  .boolean()
  .nullable()
  .describe(
    'Whether requests are charged to the parent too; null where the next less specific level, or the entity, decides',
  )
  .meta({id: 'CascadePolicy'})

export const cascadePolicyChangeSchema = z
  .strictObject({before: cascadePolicySchema, after: cascadePolicySchema})
  .meta({id: 'CascadePolicyChange'})

export const limitLevelSchema = z.enum(['entity', 'entity_default', 'resource', 'system']).meta({id: 'LimitLevel'})

export const sharedChargeSchema = z
  .strictObject({
    charged: z.boolean().describe('Whether every request is charged to the parent too'),
    level: z
      .enum([...limitLevelSchema.options, 'record'])
      .describe("The level whose policy says so; record: the entity's own cascade"),
  })
  .nullable()
  .describe('Null for an entity without a parent')
  .meta({id: 'SharedCharge'})
export type SharedChargeJson = ResultOf<typeof sharedChargeSchema>

const tokenCount = z.int().min(1)

export const limitKindShape = {
  reset: z
    .union([
      z.strictObject({crons: z.array(z.string()).describe('Full again when one of them begins to match')}),
      z.strictObject({afterSeconds: z.int().min(1).describe('Length of a session from its first use')}),
    ])
    .optional()
    .describe('A quota: nothing refills, the whole capacity is there again at each reset'),
  schedule: z
    .array(
      z.union([
        z.strictObject({cron: z.string(), scale: z.number().describe('Factor of capacity and refill amount')}),
        z.strictObject({
          cron: z.string(),
          capacity: tokenCount.optional(),
          refillAmount: tokenCount.optional(),
          refillPeriodSeconds: tokenCount.optional(),
        }),
      ]),
    )
    .optional()
    .describe('Other parameters while a cron matches; the first that matches applies'),
  timeZone: z.string().optional().describe('IANA name of the zone of resets and schedule'),
  soft: z.literal(true).optional().describe('Counted, but never a reason to refuse'),
  boost: z
    .strictObject({
      capacity: tokenCount,
      refillAmount: z.int().min(0),
      refillPeriodSeconds: tokenCount,
      text: z.string().describe('As `zael limits set` reads it'),
      until: z.string().describe('UTC, ISO 8601'),
      ended: z.boolean().describe('True: it ended, and what is left of it is yet to be removed'),
      endsCopy: z
        .boolean()
        .describe(
          'True: with it ends a copy that was made for the boosts of the scope; what applies then is not the limit as it is without, but what the next level says',
        ),
    })
    .optional()
    .describe('What applies until an instant; after that, and outside of this key, the limit as it is without'),
  unit: z.string().optional().describe('ISO 4217 code of the currency whose millionths the tokens are'),
} as const

export const limitSchema = z
  .strictObject({
    name: z.string(),
    capacity: z.int().min(1).describe('Whole tokens it holds at most; the burst'),
    refillAmount: z.int().min(0).describe('Whole tokens per period; 0 for a quota'),
    refillPeriodSeconds: z.int().min(1),
    text: z.string().describe('As `zael limits set` reads it'),
    ...limitKindShape,
  })
  .meta({id: 'Limit'})
export type LimitJson = ResultOf<typeof limitSchema>

export const scopeSchema = z
  .strictObject({
    level: limitLevelSchema,
    entity: z.string().nullable(),
    resource: z.string().nullable().describe("Null for the system, and for an entity's limits of every resource"),
  })
  .meta({id: 'Scope'})
export type ScopeJson = ResultOf<typeof scopeSchema>

export const limitChangeSchema = z
  .strictObject({
    name: z.string(),
    before: limitSchema.nullable(),
    after: limitSchema.nullable(),
  })
  .meta({id: 'LimitChange'})
export type LimitChangeJson = ResultOf<typeof limitChangeSchema>

export const onUnavailableChangeSchema = z
  .strictObject({
    before: onUnavailableSchema,
    after: onUnavailableSchema,
  })
  .meta({id: 'OnUnavailableChange'})

export const bucketSyncSchema = z
  .strictObject({
    checked: z.int().min(0),
    updated: z.int().min(0),
    failed: z.int().min(0),
  })
  .describe('Shards of live buckets that the change concerns')
  .meta({id: 'BucketSync'})

export const itemCountsSchema = z
  .strictObject({
    entities: z.int().min(0),
    entityLimits: z.int().min(0),
    resourceLimits: z.int().min(0),
    systemLimits: z.int().min(0),
    buckets: z.int().min(0),
    operations: z.int().min(0).describe('Records of top-ups and resets'),
    usage: z.int().min(0),
    audit: z.int().min(0),
    registries: z.int().min(0),
    provisioner: z.int().min(0),
    other: z.int().min(0),
    total: z.int().min(0),
  })
  .describe('Items that were deleted or, in a dry run, would be')
  .meta({id: 'ItemCounts'})
export type ItemCountsJson = ResultOf<typeof itemCountsSchema>

export const quotaLevelShape = {
  soft: z.literal(true).optional().describe('Only for soft limits, which are metered and never refuse'),
  quota: z.enum(['calendar', 'session']).optional().describe('Only for quotas, which gain nothing between resets'),
  resetsAt: z
    .string()
    .optional()
    .describe('UTC, ISO 8601: when a quota is full again; absent for a session that is not open'),
  toppedUp: z.number().optional().describe('Included in the capacity until the reset: what was added by a top-up'),
}

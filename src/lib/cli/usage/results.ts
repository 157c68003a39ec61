import * as z from 'zod'
import {strictObject} from 'zod'
import {listOf, type ResultOf, textOrNull} from '../output/results.js'

const usageWindowSchema = z.enum(['hourly', 'daily', 'monthly']).meta({id: 'UsageWindow'})

const refusedRequestsSchema = strictObject({
  requests: z.number().describe('Refused by limits of the entity itself or by a block, each request once'),
  byParent: z.number().describe('Refused only by its parent; also counted there'),
  byProvider: listOf({
    entity: z.string(),
    resource: z.string(),
    requests: z.number(),
  })
    .optional()
    .describe('Refused only by shared scopes, most first; also counted there. Absent without any.'),
  blocked: z.number().describe('Part of requests: refused because the entity or resource was disabled'),
}).meta({id: 'RefusedRequests'})

export const limitRefusedSchema = strictObject({
  requests: z.number().describe('Requests that exceeded this limit'),
  tokens: z.number().describe('Whole tokens that these requests asked for'),
}).meta({id: 'LimitRefused'})

const usagePeakSchema = strictObject({
  tokens: z.number(),
  entity: z.string(),
  start: z.string(),
}).meta({id: 'UsagePeak'})

const doubtfulSchema = z
  .number()
  .describe('Requests that are counted twice if an entity changed its parent in this time')

const refusedTwiceSchema = z
  .number()
  .describe(
    'Refused requests that are counted twice at most, because limits of both an entity and its parent refused them',
  )

const overdrawnSchema = z.int().describe('Writes that left a soft limit in debt; 0 for other limits')

const usageTotalSchema = strictObject({
  resource: z.string(),
  name: z.string().describe('Name of the limit'),
  tokens: z.number().describe('Whole tokens'),
  overdrawn: overdrawnSchema,
  windows: z.int().describe('Windows in which it was used'),
  average: z.number().describe('Tokens per such window'),
  peak: usagePeakSchema,
  refused: limitRefusedSchema,
}).meta({id: 'UsageTotal'})

const usageScopeSchema = strictObject({
  window: usageWindowSchema,
  since: z.string().describe('Start of the range, UTC'),
  until: z.string().describe('End of the range, UTC'),
  entity: textOrNull,
  resource: textOrNull,
})
export type UsageScopeJson = ResultOf<typeof usageScopeSchema>

const budgetsShape = {
  budgets: listOf({
    entity: z.string().describe('The entity, or the parent that is charged too'),
    resource: z.string(),
    name: z.string().describe('Name of the quota'),
    allowance: z.number().describe('Whole tokens of the period, including top-ups'),
    used: z
      .number()
      .nullable()
      .describe('Null: unknown, because the limit changed its kind in this period or has time windows'),
    left: z.number().describe('Negative if the quota is overdrawn'),
    share: z.number().nullable().describe('used / allowance'),
    since: textOrNull.describe('Start of the period, UTC; null if the quota is not configured'),
    resetsAt: z.string().describe('End of the period, UTC'),
    daysLeft: z.number().describe('Until the reset, to a tenth of a day'),
    averageSince: textOrNull.describe(
      'Start of the average, UTC: the first recorded use of the period or its hour, else the period; null: unknown',
    ),
    exhaustsAt: textOrNull.describe(
      'Projected by the average rate, UTC; null: not before the reset, or already used up',
    ),
    usedUp: z
      .boolean()
      .describe('Nothing is left, or less than the average request needs: such requests are refused until the reset'),
  }).describe(
    'Used quotas of the entity, and of the parent that it charges, in their current period, now; empty without an entity',
  ),
}

const parentOnlyShape = {
  parentOnly: listOf({
    resource: z.string(),
    parent: z.string(),
    limits: z.array(z.string()).describe('Names'),
  }).describe('Limits that requests of the entity charge to its parent only; their usage is recorded there'),
}

export const usageShowResult = strictObject({
  ...usageScopeSchema.shape,
  requests: z.number().describe('Requests of these windows; cascading requests count once'),
  doubtful: doubtfulSchema.nullable().describe('As in `usage summary`; null for one page of several.'),
  refused: refusedRequestsSchema,
  refusedTwice: refusedTwiceSchema,
  windows: listOf({
    entity: z.string(),
    resource: z.string(),
    start: z.string().describe('First second of the window, UTC'),
    end: z.string().describe('First second after it'),
    requests: z.number().describe('Admitted requests'),
    refused: refusedRequestsSchema,
    limits: listOf({
      name: z.string(),
      tokens: z.number(),
      overdrawn: overdrawnSchema,
      budget: z
        .number()
        .nullable()
        .describe(
          'Amount that the current limit allows per window, with top-ups; null without a limit, or with a schedule',
        ),
      share: z.number().nullable().describe('tokens / budget'),
      refused: limitRefusedSchema,
    }),
  }).describe('Newest first'),
  totals: z.array(usageTotalSchema).describe('Totals of the windows on this page'),
  ...budgetsShape,
  ...parentOnlyShape,
  next: textOrNull.describe('Cursor of the next page'),
}).meta({title: 'zael usage show'})
export type UsageShowResult = ResultOf<typeof usageShowResult>

export const usageSummaryResult = strictObject({
  ...usageScopeSchema.shape,
  requests: z.number(),
  doubtful: doubtfulSchema,
  refused: refusedRequestsSchema,
  refusedTwice: refusedTwiceSchema,
  windows: z.int(),
  totals: z.array(usageTotalSchema),
  ...budgetsShape,
  ...parentOnlyShape,
  complete: z.boolean().describe('False when only the newest windows were counted'),
}).meta({title: 'zael usage summary'})
export type UsageSummaryResult = ResultOf<typeof usageSummaryResult>

const decimalOrNull = textOrNull.describe('In the unit, as an exact decimal; null for tokens')

export const usageExportResult = strictObject({
  window: usageWindowSchema,
  since: z.string().describe('Start of the first window, UTC'),
  until: z.string().describe('End of the last window, UTC'),
  rows: listOf({
    namespace: z.string(),
    entity: z.string(),
    parent: textOrNull.describe('The current parent'),
    resource: z.string(),
    window: usageWindowSchema,
    start: z.string().describe('First second of the window, UTC'),
    open: z.boolean().describe('True until ten minutes after the end of the window: usage may still arrive'),
    requests: z.number().describe('Admitted requests of the window; the same in the rows of all its limits'),
    requestsRefused: z
      .number()
      .describe('Refused by limits of the entity itself or by a block, each request once; as above'),
    requestsRefusedByParent: z.number().describe('Refused only by its parent; as above'),
    limit: textOrNull.describe('Null: requests were counted, but no limit'),
    unit: textOrNull.describe('ISO 4217 currency code; null for tokens'),
    consumed: z.number().describe('Whole tokens, net of refunds; millionths of the unit for money'),
    amount: decimalOrNull,
    overdrawn: overdrawnSchema,
    refused: z.number().describe('Requests that exceeded this limit'),
    refusedTokens: z.number().describe('Whole tokens that these requests asked for'),
    refusedAmount: decimalOrNull,
    requestsBlocked: z
      .number()
      .describe('Part of requestsRefused: the entity or resource was disabled, so no limit counts them'),
    requestsRefusedByProvider: z.number().describe('Refused only by shared scopes, each request once'),
    kind: z
      .enum(['own', 'shared'])
      .describe('shared: the entity is a parent that is charged too, so the row includes requests of other entities'),
  }).describe('By entity, each newest first'),
  next: z.null().describe('An export has no pages'),
  warnings: z.array(z.string()).describe('Warnings; absent when there are none').optional(),
}).meta({title: 'zael usage export'})
export type UsageExportResult = ResultOf<typeof usageExportResult>

export const usageTopResult = strictObject({
  ...usageScopeSchema.omit({entity: true}).shape,
  by: z.string().describe('"requests", "refused" or the name of a limit'),
  parent: strictObject({
    entity: z.string(),
    requests: z.number().describe('Charged to it, for members or itself'),
    refused: refusedRequestsSchema,
    limits: listOf({name: z.string(), tokens: z.number()}),
    others: strictObject({requests: z.number(), limits: listOf({name: z.string(), tokens: z.number()})}).describe(
      'The part of it that is not recorded for a member: its own use, and use by deleted members',
    ),
    parentOnly: listOf({resource: z.string(), limit: z.string()}).describe(
      'Limits whose use is recorded for the parent only, because its members lack them',
    ),
    undivided: listOf({entity: z.string(), resource: z.string(), limit: z.string()}).describe(
      'Limits that the parent lacks: amounts of these members include their whole use in the window of a move',
    ),
    moves: listOf({entity: z.string(), at: z.string(), from: textOrNull, to: textOrNull}).describe(
      'Entities that came to the parent or left it. Only their use under this parent is included; in the window of a move, at most the amounts that the parent was charged.',
    ),
  })
    .nullable()
    .describe('The parent whose members are listed; null: all entities are listed'),
  consumers: listOf({
    entity: z.string(),
    resource: textOrNull.describe('Null when the resources of each entity are added up'),
    requests: z.number(),
    refused: refusedRequestsSchema,
    limits: listOf({
      name: z.string(),
      tokens: z.number(),
      overdrawn: overdrawnSchema,
      refused: limitRefusedSchema,
    }),
    share: z.number().describe('Part of the whole, from 0 to 1'),
  }).describe('Largest first'),
  total: z.int().describe('Number of consumers'),
  doubtful: doubtfulSchema,
  resources: z.array(z.string()).describe('Searched resources'),
  complete: z.boolean().describe('False when consumers are missing: --limit was given, or not all usage was read'),
}).meta({title: 'zael usage top'})
export type UsageTopResult = ResultOf<typeof usageTopResult>

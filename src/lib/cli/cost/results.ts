import * as z from 'zod'
import {strictObject} from 'zod'
import {COST_PARTS, LIST_PRICES} from '../../insight/cost/parts.js'
import {count, type ResultOf, sameShape, textOrNull} from '../output/results.js'

const dollars = z.number()
const sourceSchema = z
  .enum(['measured', 'divided', 'estimated'])
  .describe(
    'measured: by AWS; divided: share of a measured total, by usage counters; estimated: usage counters times the units of each operation',
  )
  .meta({id: 'CostSource'})

const daySchema = strictObject({
  date: z.string().describe('YYYY-MM-DD, UTC'),
  complete: z.boolean().describe('False for today'),
  admitted: z.number().nullable().describe('A request that also charges a parent counts once; null: no usage recorded'),
  refused: z.number().nullable().describe('A request that both the entity and its parent refuse counts twice'),
  dollars: dollars.nullable().describe('Cost of the traffic, without fixed costs; null: no data'),
  source: sourceSchema.nullable(),
  unread: z.boolean().describe('Usage not read, because of its size'),
}).meta({id: 'CostDay'})

const partSchema = strictObject({
  name: z.enum(COST_PARTS).describe('See docs/cost.md'),
  quantity: z.number().nullable().describe('Per day; null: unknown'),
  unit: z.string(),
  dollarsPerDay: dollars,
  dollarsPerMillion: dollars
    .nullable()
    .describe('Per million decisions; null for fixed costs, or if decisions are unknown'),
  source: sourceSchema,
}).meta({id: 'CostPart'})

const pricesSchema = sameShape(LIST_PRICES, dollars).meta({id: 'Prices'})

export const costResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('Null on a local engine'),
  days: z.array(daySchema).describe('Oldest first; the last one is today'),
  averaged: z
    .array(z.string())
    .describe('Dates in the averages: past days with data, or today if no past day has data'),
  decisionsPerDay: z.number().nullable().describe('Admitted and refused requests; null: unknown'),
  parts: z.array(partSchema).describe('Of an average day'),
  dollarsPerDay: dollars.nullable().describe('Sum of all parts; null: no traffic data'),
  dollarsPerMillion: dollars.nullable().describe('Of a million decisions, without fixed costs'),
  indexWrites: z
    .record(z.string(), z.number())
    .nullable()
    .describe('Write units of an average day by index; null: not measured'),
  notes: z.array(
    strictObject({message: z.string(), fix: textOrNull.describe('Suggested command or change')}).meta({id: 'CostNote'}),
  ),
  prices: strictObject({
    region: z.string().describe('Of the list prices'),
    asOf: z.string().describe('Month of the list prices'),
    used: pricesSchema,
  }),
  read: strictObject({
    units: z.number().describe('Read units that this report consumed'),
    metrics: count.describe('CloudWatch metrics read'),
  }),
}).meta({title: 'zael cost'})
export type CostResult = ResultOf<typeof costResult>

import {strictObject, z} from 'zod'
import {COST_PARTS} from '../../insight/cost/parts.js'
import {count, type ResultOf, textOrNull} from '../output/results.js'

const dollars = z.number()
const sourceSchema = z
  .enum(['measured', 'divided', 'estimated'])
  .describe(
    'measured: by AWS; divided: a share of a measured total, by the counters of the table; estimated: the counters times the units of each operation',
  )
  .meta({id: 'CostSource'})

const daySchema = strictObject({
  date: z.string().describe('YYYY-MM-DD, UTC'),
  complete: z.boolean().describe('False for today, which is not over'),
  admitted: z.number().nullable().describe('One that is charged to a parent too counts once; null: no usage recorded'),
  refused: z.number().nullable().describe('One that both the entity and its parent refuse counts at each of them'),
  dollars: dollars.nullable().describe('Cost of the traffic of this day, without fixed costs; null without figures'),
  source: sourceSchema.nullable(),
  unread: z.boolean().describe('Its usage was not read, because there is too much of it'),
}).meta({id: 'CostDay'})

const partSchema = strictObject({
  name: z.enum(COST_PARTS).describe('docs/cost.md says what is in each'),
  quantity: z.number().nullable().describe('Per day; null where nothing tells'),
  unit: z.string(),
  dollarsPerDay: dollars,
  dollarsPerMillion: dollars
    .nullable()
    .describe('Per million decisions; null for what does not depend on traffic, or where decisions are not known'),
  source: sourceSchema,
}).meta({id: 'CostPart'})

const pricesSchema = strictObject({
  writesPerMillion: dollars,
  readsPerMillion: dollars,
  provisionedWritePerHour: dollars,
  provisionedReadPerHour: dollars,
  storedPerGbMonth: dollars,
  recoveryPerGbMonth: dollars,
  runsPerMillion: dollars,
  armPerGbSecond: dollars,
  x86PerGbSecond: dollars,
  logsPerGb: dollars,
  alarmMetricPerMonth: dollars,
  dashboardPerMonth: dollars,
  metricPerMonth: dollars,
}).meta({id: 'Prices'})

export const costResult = strictObject({
  stack: z.string(),
  region: textOrNull.describe('Null on a local engine.'),
  days: z.array(daySchema).describe('Oldest first; the last one is today'),
  averaged: z
    .array(z.string())
    .describe('Dates that averages are made of: days that are over and have figures, or today where there is none'),
  decisionsPerDay: z.number().nullable().describe('Admitted and refused requests; null: not known'),
  parts: z.array(partSchema).describe('Of an average day'),
  dollarsPerDay: dollars.nullable().describe('All parts together; null: no day has figures of its traffic'),
  dollarsPerMillion: dollars.nullable().describe('Of a million decisions, without fixed costs'),
  indexWrites: z
    .record(z.string(), z.number())
    .nullable()
    .describe('Write units of an average day by index; null: not measured'),
  notes: z.array(
    strictObject({message: z.string(), fix: textOrNull.describe('What to do, often a command')}).meta({id: 'CostNote'}),
  ),
  prices: strictObject({
    region: z.string().describe('Of the list prices'),
    asOf: z.string().describe('Month of the list prices'),
    used: pricesSchema,
  }),
  read: strictObject({
    units: z.number().describe('Read units of the table that this report has taken'),
    metrics: count.describe('Metrics that CloudWatch was asked for'),
  }),
}).meta({title: 'zael cost'})
export type CostResult = ResultOf<typeof costResult>

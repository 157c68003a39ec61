import {strictObject, z} from 'zod'
import {listOf, type ResultOf, textOrNull} from '../output/results.js'

const engineKindSchema = z.enum(['dynoxide', 'dynamodb-local', 'docker']).meta({id: 'EngineKind'})

const localStackSchema = strictObject({
  stack: z.literal('local'),
  pid: z.int().describe('Process of the supervisor.'),
  engine: engineKindSchema,
  engineVersion: z.string(),
  endpoint: z.string(),
  port: z.int(),
  dataDir: textOrNull.describe('null: everything is in memory.'),
  startedAt: z.string().describe('ISO 8601, UTC.'),
  version: z.string().describe('Of the zael that started it.'),
})

export const localAggregatorSchema = strictObject({
  records: z.int(),
  batches: z.int(),
  snapshots: z.int(),
  refused: z.int().describe('Requests that limiters of zael refused.'),
  refills: z.int(),
  splits: z.int(),
  archived: z.int(),
  errors: z.int(),
  lastError: textOrNull,
  lagMs: z.number(),
  streamLength: z.int().nullable().describe('null before the first look, and while records wait to be read.'),
}).meta({id: 'LocalAggregator'})

export const localDownResult = strictObject({
  stopped: z.boolean(),
  endpoint: textOrNull.describe('Where it was; null: it was not running.'),
  purged: textOrNull.describe('Folder that was deleted.'),
}).meta({title: 'zael local down'})
export type LocalDownResult = ResultOf<typeof localDownResult>

export const localEnvResult = strictObject({
  variables: z.record(z.string(), z.string()),
  unset: z.array(z.string()).describe('With --unset: variables of the shell to remove.'),
}).meta({title: 'zael local env'})
export type LocalEnvResult = ResultOf<typeof localEnvResult>

export const localLogsResult = strictObject({
  file: z.string(),
  entries: listOf({
    time: textOrNull,
    level: textOrNull,
    message: z.string(),
    fields: z.record(z.string(), z.unknown()),
  }),
}).meta({title: 'zael local logs'})
export type LocalLogsResult = ResultOf<typeof localLogsResult>

export const localStatusResult = z
  .union([
    strictObject({
      running: z.literal(true),
      ...localStackSchema.shape,
      uptimeMs: z.number(),
      enginePid: z.int(),
      engineRestarts: z.int(),
      aggregator: localAggregatorSchema.nullable().describe('null: the stack runs without.'),
      table: strictObject({
        name: z.string(),
        status: z.string(),
        items: z.int(),
      }).nullable(),
      home: z.string(),
    }),
    strictObject({
      running: z.literal(false),
      problem: textOrNull.describe('Why it does not run, when it should.'),
      lastEnd: strictObject({
        endedAt: z.string(),
        port: z.int(),
        reason: textOrNull.describe('null: it was asked to.'),
      }).nullable(),
      home: z.string(),
    }),
  ])
  .meta({title: 'zael local status'})
export type LocalStatusResult = ResultOf<typeof localStatusResult>

export const localUpResult = strictObject({
  started: z.boolean().describe('false: it was up already.'),
  mended: z.boolean().describe('The one before had not ended as it should.'),
  ...localStackSchema.shape,
  aggregator: z.boolean(),
}).meta({title: 'zael local up'})
export type LocalUpResult = ResultOf<typeof localUpResult>

import {isAbsolute} from 'node:path'
import * as z from 'zod'

// Files in the state directory. Keys of newer versions are ignored, so that an older zael can read them.

/** Signals are sent to these: 0 and negative numbers would mean process groups, or all processes. */
const pidSchema = z.int32().min(1)

const portSchema = z.int().min(1).max(65_535)

const lineSchema = z
  .string()
  .max(4_096)
  .regex(/^\P{Cc}*$/u, 'control characters are not allowed')

const instantSchema = z.iso.datetime()

export const endpointSchema = z
  .string()
  .regex(/^http:\/\/127\.0\.0\.1:\d{1,5}$/, 'expected an address like http://127.0.0.1:8000')

export const processIdentitySchema = z.object({
  pid: pidSchema,
  began: lineSchema,
})

export const lockHolderSchema = processIdentitySchema.extend({
  token: z.string().min(1).max(200),
  /** State directory of the stack that holds it; absent in locks of older versions. */
  stateDir: z.string().optional(),
})

const stackName = z.literal('local')

export const stackStateSchema = processIdentitySchema.extend({
  stack: stackName,
  /** Random, new at every start; proves on the control port that both sides belong to this stack. */
  startToken: z.string().min(1).max(200),
  controlPort: portSchema,
  engine: z.enum(['dynoxide', 'dynamodb-local', 'docker']),
  engineVersion: lineSchema,
  endpoint: endpointSchema,
  port: portSchema,
  /** `null`: in memory. */
  dataDir: lineSchema.refine(isAbsolute, 'expected an absolute path').nullable(),
  aggregator: z.boolean(),
  /** As requested; absent: the default of a new table, or the index of an existing one. */
  resourceIndex: z.enum(['KEYS_ONLY', 'ALL']).optional(),
  startedAt: instantSchema,
  version: lineSchema,
})

export const stackEndSchema = z.object({
  endedAt: instantSchema,
  /** Reused by the next start if it is free, so that endpoints handed out before stay valid. */
  port: portSchema,
  /** `null`: it was stopped on request. */
  reason: z.string().nullable(),
})

const count = z.int().min(0)

const aggregatorStatusSchema = z
  .object({
    records: count,
    batches: count,
    snapshots: count,
    /** Supervisors of older versions do not report it. */
    refused: count.default(0),
    refills: count,
    splits: count,
    archived: count,
    errors: count,
    lastError: z.string().nullable(),
    /** Age of the last processed record; 0: no record is pending. */
    lagMs: z.number(),
    /** Records in the stream; `null`: not counted yet, or records are pending. */
    streamLength: count.nullable(),
  })
  .readonly()

/** Keys of newer versions are ignored. */
export const liveStatusSchema = z.object({
  uptimeMs: z.number().min(0),
  enginePid: z.int(),
  engineRestarts: count,
  /** `null`: no aggregator, or the engine is down. */
  aggregator: aggregatorStatusSchema.nullable(),
})

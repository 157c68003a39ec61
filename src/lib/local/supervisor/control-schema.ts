import {z} from 'zod'

const count = z.int().min(0)

/** What the aggregator of a local stack has done since it started, and how far behind it is. */
const aggregatorStatusSchema = z
  .object({
    records: count,
    batches: count,
    snapshots: count,
    /** Requests that limiters refused. Supervisors of older versions do not count them. */
    refused: count.default(0),
    refills: count,
    splits: count,
    archived: count,
    errors: count,
    lastError: z.string().nullable(),
    /** Age of the last record processed; 0 when no record is waiting. */
    lagMs: z.number(),
    /** Records in the table's stream; `null` until the first count, and while records wait to be read. */
    streamLength: count.nullable(),
  })
  .readonly()

/** What a supervisor knows about itself at this moment. Keys of newer versions are ignored. */
export const liveStatusSchema = z.object({
  uptimeMs: z.number().min(0),
  enginePid: z.int(),
  engineRestarts: count,
  /** `null`: the stack runs without. */
  aggregator: aggregatorStatusSchema.nullable(),
})

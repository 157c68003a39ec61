import {z} from 'zod'

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

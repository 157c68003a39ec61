/** What a batch came to. */
export interface BatchCounts {
  /** Records received. */
  records: number
  /** Of those, changes of buckets. */
  buckets: number
  /** Of those, changes of buckets in a layout that is no longer in use; they are left alone. */
  legacy: number
  /** Records that no retry can mend; they are skipped. */
  malformed: number
  /** Records that are to be delivered again. */
  failed: number
  /** Usage records written. */
  snapshots: number
  refills: number
  splits: number
  /** Audit events archived. */
  archived: number
  /** Things that went wrong, each with a line in the log. */
  errors: number
  /** How old the newest record was when the batch was done. */
  lagMs: number
}

export function noCounts(): BatchCounts {
  return {
    records: 0,
    buckets: 0,
    legacy: 0,
    malformed: 0,
    failed: 0,
    snapshots: 0,
    refills: 0,
    splits: 0,
    archived: 0,
    errors: 0,
    lagMs: 0,
  }
}

/** One line of a structured log. */
export interface LogLine {
  readonly level: 'info' | 'warn' | 'error'
  readonly message: string
  readonly [detail: string]: unknown
}

export type Log = (line: LogLine) => void

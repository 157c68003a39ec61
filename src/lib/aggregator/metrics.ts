export interface BatchCounts {
  records: number
  buckets: number
  /** Changes of buckets in a retired layout; ignored. */
  legacy: number
  /** Records that no retry can repair; skipped. */
  malformed: number
  /** Records never counted, in whole or in part; malformed ones included. */
  uncounted: number
  failed: number
  /** Usage records written. */
  snapshots: number
  /** Days and months made from finer records. */
  rolledUp: number
  refused: number
  refills: number
  splits: number
  archived: number
  /** Audit events the archive did not take; back in the table, they expire later. */
  unarchived: number
  errors: number
  /** Age of the newest record when the batch was done. */
  lagMs: number
}

export function noCounts(): BatchCounts {
  return {
    records: 0,
    buckets: 0,
    legacy: 0,
    malformed: 0,
    uncounted: 0,
    failed: 0,
    snapshots: 0,
    rolledUp: 0,
    refused: 0,
    refills: 0,
    splits: 0,
    archived: 0,
    unarchived: 0,
    errors: 0,
    lagMs: 0,
  }
}

const METRICS: readonly (readonly [name: string, count: keyof BatchCounts, unit: 'Count' | 'Milliseconds'])[] = [
  ['Records', 'records', 'Count'],
  ['Snapshots', 'snapshots', 'Count'],
  ['RefusedRequests', 'refused', 'Count'],
  ['Refills', 'refills', 'Count'],
  ['Splits', 'splits', 'Count'],
  ['Archived', 'archived', 'Count'],
  ['UnarchivedEvents', 'unarchived', 'Count'],
  ['Errors', 'errors', 'Count'],
  ['FailedRecords', 'failed', 'Count'],
  ['MalformedRecords', 'malformed', 'Count'],
  ['UncountedRecords', 'uncounted', 'Count'],
  ['LagMs', 'lagMs', 'Milliseconds'],
]

/** A log line in CloudWatch's embedded metric format, which needs neither a call nor a permission. */
export function embeddedMetrics(counts: BatchCounts, stack: string, atMs: number): Record<string, unknown> {
  return {
    _aws: {
      Timestamp: atMs,
      CloudWatchMetrics: [
        {
          Namespace: 'zael',
          Dimensions: [['Stack']],
          Metrics: METRICS.map(([Name, , Unit]) => ({Name, Unit})),
        },
      ],
    },
    Stack: stack,
    ...Object.fromEntries(METRICS.map(([name, count]) => [name, counts[count]])),
  }
}

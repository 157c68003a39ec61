export function noCounts() {
  return {
    records: 0,
    buckets: 0,
    /** Changes of buckets in a retired layout; ignored. */
    legacy: 0,
    /** Records that no retry can repair; skipped. */
    malformed: 0,
    /** Records never counted, in whole or in part, including malformed ones. */
    uncounted: 0,
    failed: 0,
    /** Usage records written. */
    snapshots: 0,
    /** Days and months made from finer records. */
    rolledUp: 0,
    refused: 0,
    refills: 0,
    splits: 0,
    archived: 0,
    /** Audit events that could not be archived. They are back in the table and expire later. */
    unarchived: 0,
    errors: 0,
    /** Age of the newest record when the batch was done. */
    lagMs: 0,
  }
}

export type BatchCounts = ReturnType<typeof noCounts>

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

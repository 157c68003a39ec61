import type {BatchCounts} from './counts.js'

const METRICS: readonly (readonly [name: string, count: keyof BatchCounts, unit: 'Count' | 'Milliseconds'])[] = [
  ['Records', 'records', 'Count'],
  ['Snapshots', 'snapshots', 'Count'],
  ['Refills', 'refills', 'Count'],
  ['Splits', 'splits', 'Count'],
  ['Archived', 'archived', 'Count'],
  ['Errors', 'errors', 'Count'],
  ['FailedRecords', 'failed', 'Count'],
  ['MalformedRecords', 'malformed', 'Count'],
  ['LagMs', 'lagMs', 'Milliseconds'],
]

/** The counts of a batch as a line in CloudWatch's embedded metric format: no call, no permission, only a log. */
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

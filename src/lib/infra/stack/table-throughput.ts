import type {OperationOutput} from '../../dynamo/transport.js'

/** Units per second. */
export interface TableThroughput {
  /** Upper bounds; `null`: none. */
  readonly maxReads: number | null
  readonly maxWrites: number | null
  /** What the table can serve at once; `null`: not reported, as by local engines. */
  readonly warmReads: number | null
  readonly warmWrites: number | null
}

/** What DynamoDB reports about the throughput of an on-demand table; -1: no maximum. */
export function throughputOf(description: OperationOutput<'DescribeTable'>['Table']): TableThroughput {
  const {MaxReadRequestUnits: maxReads = -1, MaxWriteRequestUnits: maxWrites = -1} =
    description?.OnDemandThroughput ?? {}
  const {ReadUnitsPerSecond: warmReads = null, WriteUnitsPerSecond: warmWrites = null} =
    description?.WarmThroughput ?? {}
  return {
    maxReads: maxReads > 0 ? maxReads : null,
    maxWrites: maxWrites > 0 ? maxWrites : null,
    warmReads,
    warmWrites,
  }
}

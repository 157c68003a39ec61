import type {StreamRange} from '../../../src/lib/dynamo/transports/stream-shards.js'

/** The message that Lambda sends to the queue, as its documentation shows it. */
export function letterBody({streamArn, shardId, first, last}: StreamRange, more: object = {}): string {
  return JSON.stringify({
    requestContext: {
      requestId: '316aa6d0-8154-xmpl-9af7-85d5f4a6bc81',
      functionArn: 'arn:aws:lambda:eu-west-1:123456789012:function:prod-aggregator',
      condition: 'RetryAttemptsExhausted',
      approximateInvokeCount: 9,
    },
    responseContext: {statusCode: 200, executedVersion: '$LATEST', functionError: 'Unhandled'},
    version: '1.0',
    timestamp: '2026-11-16T08:00:06.021Z',
    DDBStreamBatchInfo: {
      shardId,
      startSequenceNumber: first,
      endSequenceNumber: last,
      approximateArrivalOfFirstRecord: '2026-11-16T01:59:58Z',
      approximateArrivalOfLastRecord: '2026-11-16T02:00:04Z',
      batchSize: 2,
      streamArn,
      ...more,
    },
  })
}

import {z} from 'zod'
import type {StreamRange} from '../../dynamo/transports/stream-shards.js'

const numberText = z.string().regex(/^\d{1,40}$/)

/** Lambda sends the position of the records that it gave up on, not the records. */
const bodySchema = z.object({
  requestContext: z
    .object({condition: z.string().optional(), approximateInvokeCount: z.number().optional()})
    .optional(),
  timestamp: z.string().optional(),
  DDBStreamBatchInfo: z.object({
    shardId: z.string().min(1),
    startSequenceNumber: numberText,
    endSequenceNumber: numberText,
    approximateArrivalOfFirstRecord: z.string().optional(),
    approximateArrivalOfLastRecord: z.string().optional(),
    batchSize: z.number().optional(),
    streamArn: z.string().min(1),
  }),
})

export interface DeadLetter {
  readonly id: string
  readonly receipt: string
  readonly range: StreamRange | undefined
  /** Records in Lambda's last attempt. */
  readonly records: number | undefined
  /** Write times of the first and the last record, ISO 8601. */
  readonly firstAt: string | undefined
  readonly lastAt: string | undefined
  /** Lambda's condition, such as `RetryAttemptsExhausted`. */
  readonly reason: string | undefined
  readonly attempts: number | undefined
  /** ISO 8601. */
  readonly givenUpAt: string | undefined
}

export function readLetter(id: string, receipt: string, body: string): DeadLetter {
  const {data} = bodySchema.safeParse(parsed(body))
  const info = data?.DDBStreamBatchInfo
  return {
    id,
    receipt,
    range: info && {
      streamArn: info.streamArn,
      shardId: info.shardId,
      first: info.startSequenceNumber,
      last: info.endSequenceNumber,
    },
    records: info?.batchSize,
    firstAt: instant(info?.approximateArrivalOfFirstRecord),
    lastAt: instant(info?.approximateArrivalOfLastRecord),
    reason: data?.requestContext?.condition,
    attempts: data?.requestContext?.approximateInvokeCount,
    givenUpAt: instant(data?.timestamp),
  }
}

/** Changes of one item must be counted in order. Unreadable letters come last. */
export function inStreamOrder(letters: readonly DeadLetter[]): DeadLetter[] {
  const position = ({range}: DeadLetter) => (range ? BigInt(range.first) : undefined)
  return letters.toSorted((a, b) => {
    const [first, second] = [position(a), position(b)]
    if (first === undefined || second === undefined) return Number(first === undefined) - Number(second === undefined)
    const [one, other] = [a.range?.streamArn ?? '', b.range?.streamArn ?? '']
    if (one !== other) return one < other ? -1 : 1
    return first < second ? -1 : first > second ? 1 : 0
  })
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

function instant(text: string | undefined): string | undefined {
  const ms = Date.parse(text ?? '')
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString()
}

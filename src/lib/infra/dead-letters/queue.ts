import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueUrlCommand,
  ReceiveMessageCommand,
} from '@aws-sdk/client-sqs'
import * as z from 'zod'
import {valueIf, ZaelError} from '../../core/errors.js'
import {parseJson} from '../../core/text/text.js'
import {type Aws, countMessages} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'

/** The limit of SQS. */
const PER_REQUEST = 10

/** Messages per run; SQS hides at most 120,000 at a time. */
const MOST = 100_000

/** Long polling queries all servers of the queue, so an empty response means the end. */
const WAIT_SECONDS = 1

export class DeadLetterQueue {
  readonly name: string
  readonly #aws: Aws
  readonly #url: string

  private constructor(aws: Aws, name: string, url: string) {
    this.#aws = aws
    this.name = name
    this.#url = url
  }

  static async open(aws: Aws, stack: string): Promise<DeadLetterQueue> {
    // The templates of both tools use this name.
    const name = `${stack}-aggregator-dlq`
    const url = await callAws(`find queue "${name}"`, async () => {
      const client = await aws.sqs()
      const isMissing = (error: unknown) =>
        error instanceof Error && /NonExistentQueue|QueueDoesNotExist/.test(error.name)
      const found = await client.send(new GetQueueUrlCommand({QueueName: name})).catch(valueIf(isMissing, undefined))
      return found?.QueueUrl
    })
    if (url !== undefined) return new DeadLetterQueue(aws, name, url)
    throw new ZaelError('notFound', 'deadletters.queue', `Queue "${name}" not found.`, {
      hint: `A stack without an aggregator has no queue. Check it: zael status --stack ${stack}`,
      details: {stack, queue: name},
    })
  }

  count(): Promise<number> {
    return callAws(`read queue "${this.name}"`, async () => countMessages(await this.#aws.sqs(), this.#url))
  }

  async peek(hiddenSeconds: number, most?: number): Promise<DeadLetter[]> {
    const letters = await this.take(hiddenSeconds, most)
    try {
      return most === undefined ? letters : letters.slice(0, most)
    } finally {
      for (const letter of letters) await this.release(letter)
    }
  }

  /** Hides messages from other readers for `hiddenSeconds`. Messages are unsorted: `most` only limits their number. */
  async take(hiddenSeconds: number, most = MOST, signal?: AbortSignal): Promise<DeadLetter[]> {
    const letters = new Map<string, DeadLetter>()
    await callAws(`read queue "${this.name}"`, async () => {
      const client = await this.#aws.sqs()
      const request = {
        QueueUrl: this.#url,
        MaxNumberOfMessages: PER_REQUEST,
        VisibilityTimeout: hiddenSeconds,
        WaitTimeSeconds: WAIT_SECONDS,
      }
      while (letters.size < most) {
        signal?.throwIfAborted()
        const {Messages = []} = await client.send(new ReceiveMessageCommand(request))
        if (Messages.length === 0) break
        for (const {MessageId = '', ReceiptHandle = '', Body = ''} of Messages) {
          letters.set(MessageId, readLetter(MessageId, ReceiptHandle, Body))
        }
      }
    })
    return inStreamOrder([...letters.values()])
  }

  async release({receipt}: DeadLetter): Promise<void> {
    const request = {QueueUrl: this.#url, ReceiptHandle: receipt, VisibilityTimeout: 0}
    await callAws(`release a message of queue "${this.name}"`, async () =>
      (await this.#aws.sqs()).send(new ChangeMessageVisibilityCommand(request)),
    )
  }

  async delete({receipt}: DeadLetter): Promise<void> {
    const request = {QueueUrl: this.#url, ReceiptHandle: receipt}
    await callAws(`delete a message of queue "${this.name}"`, async () =>
      (await this.#aws.sqs()).send(new DeleteMessageCommand(request)),
    )
  }
}

const numberText = z.string().regex(/^\d{1,40}$/)

/** Lambda sends the stream position of failed records, not the records. */
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

export type DeadLetter = Readonly<ReturnType<typeof readLetter>>

/** Instants are ISO 8601. */
export function readLetter(id: string, receipt: string, body: string) {
  const {data} = bodySchema.safeParse(parseJson(body))
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
    /** Write times of the first and the last record. */
    firstAt: instant(info?.approximateArrivalOfFirstRecord),
    lastAt: instant(info?.approximateArrivalOfLastRecord),
    /** Lambda's condition, such as `RetryAttemptsExhausted`. */
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

function instant(text: string | undefined): string | undefined {
  const ms = Date.parse(text ?? '')
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString()
}

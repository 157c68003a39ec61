import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  ReceiveMessageCommand,
} from '@aws-sdk/client-sqs'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {type DeadLetter, inStreamOrder, readLetter} from './dead-letter.js'

/** The templates of both tools use this name. */
const queueName = (stack: string): string => `${stack}-aggregator-dlq`

/** The limit of SQS. */
const PER_REQUEST = 10

/** Messages per run; SQS hides at most 120,000 at a time. */
const MOST = 100_000

/** A request that waits asks all servers of the queue, so an empty response means the end. */
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
    const name = queueName(stack)
    const url = await callAws(`find queue "${name}"`, async () => {
      const client = await aws.sqs()
      try {
        return (await client.send(new GetQueueUrlCommand({QueueName: name}))).QueueUrl
      } catch (error) {
        if (error instanceof Error && /NonExistentQueue|QueueDoesNotExist/.test(error.name)) return undefined
        throw error
      }
    })
    if (url !== undefined) return new DeadLetterQueue(aws, name, url)
    throw new ZaelError('notFound', 'deadletters.queue', `There is no queue "${name}".`, {
      hint: `A stack without an aggregator has none; see: zael status --stack ${stack}`,
      details: {stack, queue: name},
    })
  }

  /** Approximate; includes messages in flight. */
  async count(): Promise<number> {
    const names = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'] as const
    const {Attributes = {}} = await callAws(`read queue "${this.name}"`, async () =>
      (await this.#aws.sqs()).send(new GetQueueAttributesCommand({QueueUrl: this.#url, AttributeNames: [...names]})),
    )
    return names.reduce((sum, name) => sum + Number(Attributes[name] ?? 0), 0)
  }

  async peek(hiddenSeconds: number, most?: number): Promise<DeadLetter[]> {
    const letters = await this.take(hiddenSeconds, most)
    try {
      return most === undefined ? letters : letters.slice(0, most)
    } finally {
      for (const letter of letters) await this.release(letter)
    }
  }

  /** Hides messages from others for `hiddenSeconds`. A queue is not sorted: `most` only bounds how many are read. */
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

import {ZaelError} from '../../core/errors.js'
import type {Item} from '../../schema/attribute-value.js'
import {onAbort} from '../abort.js'
import {classifyError} from '../classify.js'
import type {Operation, SendOptions} from '../transport.js'
import type {Access} from './access.js'
import {Exchange, HttpPool} from './http.js'
import {fromWire, postMessage, type ServiceError, Signer, serviceError, toWire} from './wire.js'

export interface ShardDescription {
  ShardId: string
  /** Read the parent first; it may already be gone. */
  ParentShardId?: string
}

export interface RawRecord {
  eventID?: string
  eventName: string
  userIdentity?: {type: string; principalId: string}
  dynamodb: {
    /** Epoch seconds. */
    ApproximateCreationDateTime: number
    Keys: Item
    NewImage?: Item
    OldImage?: Item
    SequenceNumber: string
    StreamViewType?: string
  }
}

export interface StreamOperations {
  DescribeStream: {
    input: {StreamArn: string; ExclusiveStartShardId?: string}
    output: {StreamDescription?: {Shards?: ShardDescription[]; LastEvaluatedShardId?: string}}
  }
  GetShardIterator: {
    input: {
      StreamArn: string
      ShardId: string
      ShardIteratorType: 'TRIM_HORIZON' | 'AT_SEQUENCE_NUMBER' | 'AFTER_SEQUENCE_NUMBER'
      SequenceNumber?: string
    }
    output: {ShardIterator?: string}
  }
  GetRecords: {
    input: {ShardIterator: string; Limit?: number}
    output: {Records?: RawRecord[]; NextShardIterator?: string | null}
  }
}

/** Throws the errors of `errors.ts` and the two below. */
export interface StreamTransport {
  send<O extends keyof StreamOperations>(
    operation: O,
    input: StreamOperations[O]['input'],
    options?: SendOptions,
  ): Promise<StreamOperations[O]['output']>
  close(): void
}

interface StreamTransportOptions {
  /** A local engine serves streams and tables at one address; AWS does not: `streamEndpoint`. */
  access: Access
  clock: () => number
}

const CONNECT_TIMEOUT_MS = 3_000
// Enough for a thousand records from an engine that is busy writing.
const REQUEST_TIMEOUT_MS = 30_000
const LONGEST_EXCHANGE_MS = 90_000

export function createStreamTransport({access, clock}: StreamTransportOptions): StreamTransport {
  const signer = new Signer(access.credentials, access.region)
  const timeouts = {connectTimeoutMs: CONNECT_TIMEOUT_MS, requestTimeoutMs: REQUEST_TIMEOUT_MS}
  const pool = new HttpPool({origin: access.endpoint, clock, ...timeouts})

  function message(operation: keyof StreamOperations, body: string): string {
    const target = `DynamoDBStreams_20120810.${operation}`
    const headers = signer.sign({host: access.endpoint.host, target, body, nowMs: clock()})
    return postMessage(headers, body)
  }

  return {
    async send(operation, input, {signal} = {}) {
      const exchange = new Exchange(message(operation, toWire(input)), performance.now() + LONGEST_EXCHANGE_MS)
      let unsubscribe: (() => void) | undefined
      try {
        signal?.throwIfAborted()
        if (signal) unsubscribe = onAbort(signal, () => exchange.fail(signal.reason))
        pool.start(exchange)
        const answer = await exchange.answer
        if (answer.status !== 200) throw serviceError(answer)
        return fromWire(answer.body.toString()) as never
      } catch (error) {
        throw streamFailure(error, operation, signal)
      } finally {
        unsubscribe?.()
      }
    },

    close: () => pool.close(),
  }
}

function streamFailure(error: unknown, operation: string, signal: AbortSignal | undefined): Error {
  const {name} = error as Partial<ServiceError>
  if (name === 'ExpiredIteratorException') return new IteratorExpired(error)
  if (name === 'TrimmedDataAccessException') return new RecordsTrimmed(error)
  // Reading applies nothing.
  return classifyError(error, operation as Operation, {signal, sent: false})
}

export class IteratorExpired extends ZaelError {
  constructor(cause?: unknown) {
    super('failed', 'stream.iterator-expired', 'The shard iterator has expired', {
      hint: 'Request a new iterator by its sequence number.',
      cause,
    })
  }
}

/** A stream keeps records for a day. */
export class RecordsTrimmed extends ZaelError {
  constructor(cause?: unknown) {
    super('failed', 'stream.trimmed', 'Records of the stream were removed before they were read', {
      hint: 'Continue with the oldest remaining record.',
      cause,
    })
  }
}

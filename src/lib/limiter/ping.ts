import type {ZaelError} from '../core/errors.js'
import {isOutage} from '../dynamo/errors.js'
import type {Table} from '../repository/table/table.js'
import type {Key} from '../schema/attribute-value.js'
import {wireKey} from '../schema/keys.js'

/** Limits of one ping. */
export interface PingOptions {
  /** Time limit, in ms. @default the limiter's `timeoutMs` */
  readonly timeoutMs?: number
  /** Cancels the ping. */
  readonly signal?: AbortSignal
}

/** Whether the table answered a ping. */
export type PingResult =
  | {readonly available: true; readonly latencyMs: number}
  /** `error`: why there was no answer; a network failure, a timeout, throttling, a server error or no credentials. */
  | {readonly available: false; readonly latencyMs: number; readonly error: ZaelError}

/** Not retried, so that the latency is that of one round trip. Throws errors that are not outages. */
export async function pingTable(
  {transport, name}: Table,
  key: Key,
  {timeoutMs, signal}: PingOptions,
): Promise<PingResult> {
  const startedMs = performance.now()
  try {
    const request = {TableName: name, Key: wireKey(key), ConsistentRead: true}
    await transport.send('GetItem', request, {timeoutMs, signal})
    return {available: true, latencyMs: performance.now() - startedMs}
  } catch (error) {
    if (!isOutage(error)) throw error
    return {available: false, latencyMs: performance.now() - startedMs, error}
  }
}

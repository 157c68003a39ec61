import type {StackContext} from '../../cli/base/context.js'
import {ZaelError} from '../../core/errors.js'
import {onAbort, TimeoutError} from '../../dynamo/abort.js'
import {SharedFlight} from '../../dynamo/shared-flight.js'
import {untilAborted} from '../../repository/table/table.js'
import type {WatchRequest} from '../flags.js'
import {needScope} from '../open.js'
import {BucketPoller} from '../poll/poller.js'
import {bucketMetrics, expositionText} from './bucket-metrics.js'

/** Below the 10 s after which Prometheus gives up. */
const LONGEST_READ_MS = 9000

/** On AWS, reading the lag takes several calls, and it changes once a minute. */
const LAG_MS = 60_000

/** Concurrent reads, and reads within `intervalMs` of the last, share one result. */
export type MetricsSource = () => Promise<string>

/** Reads on demand, at most the cost of one poll. `ended` aborts the read in flight. */
export async function metricsSource(
  stack: StackContext,
  {scope, intervalMs}: Pick<WatchRequest, 'scope' | 'intervalMs'>,
  {namespace, ourVersion}: {readonly namespace: string; readonly ourVersion: string},
  ended: AbortSignal,
): Promise<MetricsSource> {
  const repository = await stack.namespace()
  const {table} = stack
  const poller = new BucketPoller({...table, namespace: repository.id}, scope)
  const flight = new SharedFlight<string>(LONGEST_READ_MS)
  onAbort(ended, () => flight.abandon(new Error('the server of metrics has ended')))
  const lag = rememberedLag(stack, ourVersion)
  let last: {readonly text: string; readonly readAtMs: number} | undefined
  return async () => {
    const nowMs = performance.now()
    if (last && nowMs - last.readAtMs < intervalMs) return last.text
    const read = flight.join(async signal => {
      await poller.loadFacts(signal)
      const [result, lagMs] = [await poller.poll(new Set(), signal), await lag(signal)]
      if (!last) await needScope(repository, scope, result)
      const text = expositionText(bucketMetrics(result, table.clock(), {namespace, lagMs}))
      last = {text, readAtMs: performance.now()}
      return text
    })
    return read.catch(error => {
      throw error instanceof TimeoutError ? unanswered(table.name, error) : error
    })
  }
}

function unanswered(table: string, cause: Error): ZaelError {
  const message = `Table ${table} was not read within ${LONGEST_READ_MS / 1000} seconds, so there are no metrics now.`
  return new ZaelError('failed', 'watch.unanswered', message, {
    hint: 'The next scrape tries again. If it lasts, run zael doctor where this server runs.',
    cause,
  })
}

/** `undefined`: unknown, or no aggregator. */
function rememberedLag(stack: StackContext, ourVersion: string): (signal: AbortSignal) => Promise<number | undefined> {
  let known: {readonly lagMs: number | undefined; readonly readAtMs: number} | undefined
  return async signal => {
    if (known && performance.now() - known.readAtMs < LAG_MS) return known.lagMs
    const lagMs = await readLag(stack, ourVersion, signal).catch(() => undefined)
    known = {lagMs, readAtMs: performance.now()}
    return lagMs
  }
}

async function readLag(
  {stack, table, awsServices, endpoint}: StackContext,
  ourVersion: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  using aws = await awsServices(signal)
  if (!aws) {
    const {supervisorOf} = await import('../../cli/base/local-health.js')
    return (await supervisorOf({stack, endpoint}))?.aggregator?.lagMs
  }
  const {gatherHealth} = await import('../../infra/health/health.js')
  const {traffic} = await gatherHealth({table: untilAborted(table, signal), aws, ourVersion})
  return traffic?.iteratorAgeMs ?? undefined
}

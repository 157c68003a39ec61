import {createServer, type Server, type ServerResponse} from 'node:http'
import {type AddressInfo, BlockList, isIP} from 'node:net'
import type {StackContext} from '../../cli/base/context.js'
import {listenForEnd, withinTime} from '../../cli/output/interrupt.js'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {onAbort, TimeoutError} from '../../dynamo/abort.js'
import {SharedFlight} from '../../dynamo/shared-flight.js'
import {untilAborted} from '../../repository/table/table.js'
import type {WatchRequest} from '../flags.js'
import {BucketPoller} from '../poll/poller.js'
import {needScope} from '../run.js'
import {bucketMetrics, EXPOSITION_TYPE, expositionText} from './bucket-metrics.js'

export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** Accepts `PORT`, `HOST:PORT` or `[IPv6]:PORT`. Default host: 127.0.0.1. */
export function listenAddress(text: string): ListenAddress {
  const [, bracketed, plain, digits = ''] = /^(?:(?:\[([^\]]+)\]|([^:[\]\s]+)):)?(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  if (digits !== '' && port <= 65_535) return {host: bracketed ?? plain ?? '127.0.0.1', port}
  throw new InvalidInput('watch.listen', `--listen: "${text}" is not an address.`, {
    hint: 'Give a port or HOST:PORT, such as 127.0.0.1:9464. Port 0 picks a free port.',
    details: {listen: text},
  })
}

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

export function isOwnMachine(host: string): boolean {
  if (host === 'localhost') return true
  const version = isIP(host)
  return version !== 0 && LOOPBACK.check(host, version === 4 ? 'ipv4' : 'ipv6')
}

export async function serveMetrics(source: MetricsSource, {host, port}: ListenAddress) {
  const server = createServer((request, response) => {
    const path = request.url?.split('?')[0]
    if (path !== '/metrics') return end(response, 404, 'Not found. Metrics are at /metrics.\n')
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.setHeader('Allow', 'GET, HEAD')
      return end(response, 405, 'Only GET.\n')
    }
    source().then(
      text => end(response, 200, text, EXPOSITION_TYPE),
      (error: unknown) => end(response, 503, `${reasonOf(error)}\n`),
    )
  })
  await listening(server, {host, port})
  const {port: taken} = server.address() as AddressInfo
  return {
    url: `http://${isIP(host) === 6 ? `[${host}]` : host}:${taken}/metrics`,
    close: async () => {
      const closed = new Promise(resolve => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error instanceof ZaelError && error.hint ? `${error.message}\n${error.hint}` : error.message
}

function end(response: ServerResponse, status: number, text: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, {'Content-Type': type, 'Content-Length': Buffer.byteLength(text)})
  response.end(text)
}

function listening(server: Server, {host, port}: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const why = REASONS[error.code ?? ''] ?? error.message
      reject(
        new ZaelError('failed', 'watch.listen', `Cannot listen on ${host}:${port}: ${why}.`, {
          hint: 'Choose another address or port. To pick a free port: zael watch --prometheus --listen 127.0.0.1:0',
          details: {host, port},
          cause: error,
        }),
      )
    })
    server.listen(port, host, resolve)
  })
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EADDRNOTAVAIL: 'this machine does not have that address',
  EACCES: 'the port is reserved',
  ENOTFOUND: 'the host does not exist',
}

interface MetricsPlace {
  readonly namespace: string
  readonly ourVersion: string
}

interface ServerSurface {
  readonly listen: string
  readonly log: (line: string) => void
  readonly warn: (line: string) => void
}

export async function printMetrics(stack: StackContext, request: WatchRequest, place: MetricsPlace): Promise<void> {
  const text = await withinTime(request.forMs, async signal => (await metricsSource(stack, request, place, signal))())
  process.stdout.write(text)
}

/** Resolves to the exit code when a signal or `--for` ends it. Throws if the first read fails. */
export async function runMetricsServer(
  stack: StackContext,
  request: WatchRequest,
  {listen, log, warn, ...place}: MetricsPlace & ServerSurface,
): Promise<number> {
  const address = listenAddress(listen)
  const over = new AbortController()
  const startedAt = performance.now()
  try {
    // Until then a signal ends the process at once: no scrape is in progress.
    const source = await withinTime(request.forMs, async () => {
      const opened = await metricsSource(stack, request, place, over.signal)
      await opened()
      return opened
    })
    const server = await serveMetrics(source, address)
    const end = listenForEnd(request.forMs && Math.max(0, request.forMs - (performance.now() - startedAt)))
    try {
      log(`Serving ${server.url}. Press Ctrl-C to stop.`)
      if (!isOwnMachine(address.host))
        warn('The metrics have no password. Anyone who can connect to this address can read them.')
      return await end.reached
    } finally {
      end.stop()
      await server.close()
    }
  } finally {
    over.abort()
  }
}

/** Below the 10 s after which Prometheus gives up. */
const LONGEST_READ_MS = 9000

/** On AWS, reading the lag takes several calls, and it changes once a minute. */
const LAG_MS = 60_000

/** Concurrent reads, and reads within `intervalMs` of the last, share one result. */
type MetricsSource = () => Promise<string>

/** Reads on demand, at most at the cost of one poll. `ended` aborts the read in flight. */
export async function metricsSource(
  stack: StackContext,
  {scope, intervalMs}: Pick<WatchRequest, 'scope' | 'intervalMs'>,
  {namespace, ourVersion}: MetricsPlace,
  ended: AbortSignal,
): Promise<MetricsSource> {
  const repository = await stack.namespace()
  const {table} = stack
  const poller = new BucketPoller({...table, namespace: repository.id}, scope)
  const flight = new SharedFlight<string>(LONGEST_READ_MS)
  onAbort(ended, () => flight.abandon(new Error('the metrics server has stopped')))
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
  const message = `Reading table ${table} took more than ${LONGEST_READ_MS / 1000} seconds, so no metrics are available now.`
  return new ZaelError('failed', 'watch.unanswered', message, {
    hint: 'The next scrape tries again. If it keeps failing, run zael doctor on this machine.',
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

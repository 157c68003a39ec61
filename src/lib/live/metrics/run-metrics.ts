import type {StackContext} from '../../cli/base/context.js'
import {listenForEnd, withinTime} from '../../cli/output/interrupt.js'
import type {WatchRequest} from '../flags.js'
import {isOwnMachine, listenAddress, serveMetrics} from './metrics-server.js'
import {metricsSource} from './prometheus.js'

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

/** Serves the metrics until a signal or `--for` ends it; resolves to the exit code. The first read must succeed. */
export async function runMetricsServer(
  stack: StackContext,
  request: WatchRequest,
  {listen, log, warn, ...place}: MetricsPlace & ServerSurface,
): Promise<number> {
  const address = listenAddress(listen)
  const over = new AbortController()
  const startedAt = performance.now()
  try {
    // Until this is done a signal ends the process at once: there is no scrape to finish.
    const source = await withinTime(request.forMs, async () => {
      const opened = await metricsSource(stack, request, place, over.signal)
      await opened()
      return opened
    })
    const server = await serveMetrics(source, address)
    const end = listenForEnd(request.forMs && Math.max(0, request.forMs - (performance.now() - startedAt)))
    try {
      log(`Serving ${server.url}; Ctrl-C ends it.`)
      if (!isOwnMachine(address.host))
        warn('Whoever reaches this address can read the metrics: nobody is asked for a password.')
      return await end.reached
    } finally {
      end.stop()
      await server.close()
    }
  } finally {
    over.abort()
  }
}

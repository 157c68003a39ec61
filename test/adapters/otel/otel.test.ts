import {AsyncLocalStorage} from 'node:async_hooks'
import {type Context, type ContextManager, context, metrics, ROOT_CONTEXT, trace} from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor} from '@opentelemetry/sdk-trace-base'
import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {type ObserveOptions, observeDecisions, observeSettlements} from '../../../src/lib/adapters/otel/index.js'
import type {DecisionEvent} from '../../../src/lib/limiter/request/decision-event.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {failure, request} from '../../limiter/visit.js'

/** Like the context manager of the SDK for Node, on AsyncLocalStorage. */
class StorageContextManager implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>()
  active = () => this.#storage.getStore() ?? ROOT_CONTEXT
  with: ContextManager['with'] = (context, fn, self, ...args) =>
    this.#storage.run(context, () => fn.call(self as never, ...args))
  bind: ContextManager['bind'] = (_, target) => target
  enable = () => this
  disable = () => this
}

let reader: PeriodicExportingMetricReader
let exported: InMemoryMetricExporter
let meterProvider: MeterProvider
let spans: InMemorySpanExporter
let tracerProvider: BasicTracerProvider

beforeEach(() => {
  exported = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  reader = new PeriodicExportingMetricReader({exporter: exported, exportIntervalMillis: 3_600_000})
  meterProvider = new MeterProvider({readers: [reader]})
  spans = new InMemorySpanExporter()
  tracerProvider = new BasicTracerProvider({spanProcessors: [new SimpleSpanProcessor(spans)]})
  context.setGlobalContextManager(new StorageContextManager())
})

afterEach(async () => {
  context.disable()
  metrics.disable()
  await meterProvider.shutdown()
  await tracerProvider.shutdown()
})

const observe = (options: ObserveOptions = {}) => observeDecisions({meterProvider, tracerProvider, ...options})

/** Every metric: its unit, kind, and values by label; histograms as count, and the bounds of their buckets. */
async function recorded(): Promise<Record<string, unknown>> {
  await reader.forceFlush()
  const found =
    exported
      .getMetrics()
      .at(-1)
      ?.scopeMetrics.flatMap(scope => scope.metrics) ?? []
  return Object.fromEntries(
    found.map(({descriptor, dataPoints}) => [
      descriptor.name,
      {
        unit: descriptor.unit,
        description: descriptor.description,
        points: dataPoints.map(({attributes, value}) => {
          const labels = Object.entries(attributes)
            .sort()
            .map(([name, label]) => `${name}=${label}`)
            .join(' ')
          return typeof value === 'number' ? `${labels}: ${value}` : `${labels}: ${value.count} recorded`
        }),
      },
    ]),
  )
}

const pointsOf = async (name: string): Promise<string[]> =>
  ((await recorded())[name] as {points: string[]} | undefined)?.points ?? []

const EVENT: DecisionEvent = {
  outcome: 'admitted',
  reason: undefined,
  refusedBy: undefined,
  retryAfterMs: null,
  error: undefined,
  limits: {},
  share: undefined,
  namespace: 'default',
  entity: 'user-1',
  resource: 'gpt-4',
  consume: {rpm: 1},
  resources: undefined,
  waitedMs: 0,
  durationMs: 4,
  calls: 1,
  circuit: 'closed',
}

it('labels decisions that an open circuit answered', async () => {
  const record = observe()
  record(EVENT)
  record({...EVENT, reason: 'unavailable', circuit: 'open'})
  const shared = 'zael.namespace=default zael.outcome=admitted'
  expect(await pointsOf('zael.decisions')).toEqual([
    `${shared} zael.resource=gpt-4: 1`,
    `zael.circuit=open ${shared} zael.reason=unavailable zael.resource=gpt-4: 1`,
  ])
})

it('counts settlements by outcome', async () => {
  const record = observeSettlements({meterProvider})
  const settled = {namespace: 'default', entity: 'user-1', resource: 'gpt-4', usage: {tpm: 48}, charged: {tpm: 48}}
  record({...settled, retries: 0, error: undefined})
  record({...settled, retries: 0, error: undefined})
  record({...settled, retries: 3, error: undefined})
  record({...settled, retries: 40, charged: {tpm: 4001}, error: new Error('throttled')})
  expect((await recorded())['zael.settlements']).toEqual({
    unit: '{settlement}',
    description: 'Lease settlements: written at once, written after retries, or given up.',
    points: [
      'zael.namespace=default zael.outcome=written zael.resource=gpt-4: 2',
      'zael.namespace=default zael.outcome=retried zael.resource=gpt-4: 1',
      'zael.namespace=default zael.outcome=failed zael.resource=gpt-4: 1',
    ],
  })
})

describeOnBoth('decisions as metrics', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min')
  })

  it('record the share of slots in use, of in-flight limits', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'parallel=2/inflight')
    const limiter = scene.limiter({onDecision: observe(), namespace: 'default'})
    await tracerProvider.getTracer('app').startActiveSpan('call', async span => {
      for (let count = 0; count < 3; count++) await limiter.tryAcquire(request({rpm: 1}))
      span.end()
    })
    const shared = 'zael.limit=parallel zael.namespace=default zael.outcome='
    expect((await recorded())['zael.slots.share']).toEqual({
      unit: '1',
      description: 'Slots in use of each in-flight limit after a decision, as a fraction of its capacity.',
      points: [`${shared}admitted zael.resource=gpt-4: 2 recorded`, `${shared}refused zael.resource=gpt-4: 1 recorded`],
    })
    const used = spans.getFinishedSpans().flatMap(({attributes}) => attributes['zael.slots.parallel.used'] ?? [])
    expect(used).toEqual([1, 2, 2])
    expect(spans.getFinishedSpans()[0]?.attributes['zael.slots.parallel.capacity']).toBe(2)
  })

  it('record these names, units and labels, and no entities', async () => {
    const sleep = async (ms: number) => {
      scene.nowMs += ms
    }
    const limiter = scene.limiter({onDecision: observe(), sleep, namespace: 'default'})
    await limiter.acquire(request({rpm: 10}))
    await limiter.tryAcquire(request({rpm: 1}))
    await limiter.tryAcquire(request({rpm: 11}))
    await limiter.acquire({...request({rpm: 1}), waitMs: 10_000})
    await failure(limiter.acquire({...request({rpm: 1}), signal: AbortSignal.abort()}))
    const found = await recorded()
    const calls = (found['zael.calls'] as {points: string[]}).points
    // The limiter's tests cover the number.
    expect(calls).toEqual([expect.stringMatching(/^zael\.namespace=default: [1-9]\d*$/)])
    expect({
      ...found,
      'zael.calls': {...(found['zael.calls'] as object), points: ['zael.namespace=default: n']},
    }).toMatchInlineSnapshot(`
      {
        "zael.calls": {
          "description": "Calls to the table by all requests, which share calls.",
          "points": [
            "zael.namespace=default: n",
          ],
          "unit": "{call}",
        },
        "zael.decision.duration": {
          "description": "From call to decision, including waits for admission.",
          "points": [
            "zael.namespace=default zael.outcome=admitted zael.resource=gpt-4: 2 recorded",
            "zael.namespace=default zael.outcome=refused zael.resource=gpt-4: 2 recorded",
            "zael.namespace=default zael.outcome=failed zael.resource=gpt-4: 1 recorded",
          ],
          "unit": "s",
        },
        "zael.decision.wait": {
          "description": "Waiting time of requests that waited for admission.",
          "points": [
            "zael.namespace=default zael.outcome=admitted zael.resource=gpt-4: 1 recorded",
          ],
          "unit": "s",
        },
        "zael.decisions": {
          "description": "Decisions by outcome; refusals also by limit and level.",
          "points": [
            "zael.namespace=default zael.outcome=admitted zael.resource=gpt-4: 2",
            "zael.level=entity zael.limit=rpm zael.namespace=default zael.outcome=refused zael.reason=exceeded zael.resource=gpt-4: 1",
            "zael.level=entity zael.limit=rpm zael.namespace=default zael.outcome=refused zael.reason=too-large zael.resource=gpt-4: 1",
            "zael.namespace=default zael.outcome=failed zael.reason=aborted zael.resource=gpt-4: 1",
          ],
          "unit": "{decision}",
        },
      }
    `)
  })

  it('keep names with every allowed character as labels, and drop others', async () => {
    const odd = {resource: 'llama3:8b/x.y-z_1', entity: 'team:1@x.y', limit: 'in.tok-1_x'}
    await scene.configure({level: 'resource', resource: odd.resource}, `${odd.limit}=1/hour`)
    const limiter = scene.limiter({onDecision: observe({entities: true}), namespace: 'default'})
    const ask = ({entity, resource}: {entity: string; resource: string}) =>
      limiter.tryAcquire({entity, resource, consume: {[odd.limit]: 1}})
    await ask(odd)
    await ask(odd)
    const admitted = 'zael.namespace=default zael.outcome=admitted zael.resource=llama3:8b/x.y-z_1: 1'
    const refused =
      'zael.namespace=default zael.outcome=refused zael.reason=exceeded zael.resource=llama3:8b/x.y-z_1: 1'
    expect(await pointsOf('zael.decisions')).toEqual([
      `zael.entity=team:1@x.y ${admitted}`,
      `zael.entity=team:1@x.y zael.level=entity zael.limit=in.tok-1_x ${refused}`,
    ])
    const wrong = 'a b|"|\\|a=b,c|{}|a\nb|\0|\u{1F600}|\uD800|\u202E|__proto__|_other_'.split('|')
    for (const name of ['', ...wrong]) await failure(ask({entity: name, resource: name}))
    // Impossible names are neither decisions nor series.
    expect(await pointsOf('zael.decisions')).toHaveLength(2)
  })

  it('change no decision when the SDK throws, and resume when it works again', async () => {
    let isBroken = true
    const getMeter: typeof meterProvider.getMeter = (...args) => {
      if (isBroken) throw new Error('no SDK')
      return meterProvider.getMeter(...args)
    }
    const onDecision = observeDecisions({meterProvider: {getMeter}, spans: false})
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const limiter = scene.limiter({onDecision, namespace: 'default'})
    await limiter.acquire(request({rpm: 1}))
    isBroken = false
    await limiter.acquire(request({rpm: 1}))
    expect(warned).toHaveBeenCalledTimes(1)
    warned.mockRestore()
    expect(await pointsOf('zael.decisions')).toEqual([
      'zael.namespace=default zael.outcome=admitted zael.resource=gpt-4: 1',
    ])
  })

  it('record two limiters as one series each, and failures of a closed one', async () => {
    const onDecision = observe()
    const limiters = ['a', 'b'].map(namespace => scene.limiter({onDecision, namespace}))
    for (const limiter of limiters) await limiter.acquire(request({rpm: 1}))
    await limiters[0]?.close()
    await failure(limiters[0]?.acquire(request({rpm: 1})) ?? Promise.resolve())
    expect((await pointsOf('zael.decisions')).toSorted()).toEqual([
      'zael.namespace=a zael.outcome=admitted zael.resource=gpt-4: 1',
      'zael.namespace=a zael.outcome=failed zael.reason=closed zael.resource=gpt-4: 1',
      'zael.namespace=b zael.outcome=admitted zael.resource=gpt-4: 1',
    ])
  })

  it('record entities only on request', async () => {
    const limiter = scene.limiter({onDecision: observe({entities: true}), namespace: 'default'})
    await limiter.acquire(request({rpm: 1}))
    expect(await pointsOf('zael.decisions')).toEqual([
      'zael.entity=user-1 zael.namespace=default zael.outcome=admitted zael.resource=gpt-4: 1',
    ])
  })
})

describe('metrics', () => {
  it('bound the number of series, whatever names requests carry, and keep known names', async () => {
    const onDecision = observe()
    for (let at = 0; at < 1200; at++) onDecision({...EVENT, resource: `model-${at}`})
    onDecision({...EVENT, resource: 'model-0'})
    const points = await pointsOf('zael.decisions')
    expect(points).toHaveLength(1001)
    expect(points).toContain('zael.namespace=default zael.outcome=admitted zael.resource=model-0: 2')
    expect(points).toContain('zael.namespace=default zael.outcome=admitted zael.resource=_other_: 200')
  })

  it('record seconds', async () => {
    const onDecision = observe()
    onDecision({...EVENT, durationMs: 250, waitedMs: 200})
    await reader.forceFlush()
    const histograms = exported
      .getMetrics()
      .at(-1)
      ?.scopeMetrics[0]?.metrics.flatMap(({descriptor, dataPoints}) =>
        dataPoints.flatMap(({value}) => (typeof value === 'number' ? [] : [[descriptor.name, value.sum]])),
      )
    expect(histograms).toEqual([
      ['zael.decision.duration', 0.25],
      ['zael.decision.wait', 0.2],
    ])
  })

  it('go to the provider that is registered at the first decision', async () => {
    const onDecision = observeDecisions({spans: false})
    metrics.setGlobalMeterProvider(meterProvider)
    onDecision(EVENT)
    expect(await pointsOf('zael.decisions')).toEqual([
      'zael.namespace=default zael.outcome=admitted zael.resource=gpt-4: 1',
    ])
  })
})

describeOnBoth('decisions as spans', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1/min')
  })

  /** Runs `work` within its own span. */
  const traced = async (work: () => Promise<unknown>): Promise<string> => {
    const outer = tracerProvider.getTracer('test').startSpan('request')
    await context.with(trace.setSpan(context.active(), outer), work)
    return outer.spanContext().spanId
  }

  it("are children of the request's span, over all waits for the table", async () => {
    const limiter = scene.limiter({onDecision: observe(), namespace: 'default'})
    const outer = await traced(async () => {
      await limiter.acquire(request({rpm: 1}))
      await limiter.tryAcquire(request({rpm: 1}))
    })
    expect(
      spans.getFinishedSpans().map(({name, parentSpanContext, attributes, status}) => {
        return {name, parent: parentSpanContext?.spanId, attributes, status: status.code}
      }),
    ).toEqual([
      {
        name: 'zael.decision',
        parent: outer,
        attributes: {'zael.namespace': 'default', 'zael.resource': 'gpt-4', 'zael.outcome': 'admitted'},
        status: 0,
      },
      {
        name: 'zael.decision',
        parent: outer,
        attributes: {
          'zael.namespace': 'default',
          'zael.resource': 'gpt-4',
          'zael.outcome': 'refused',
          'zael.reason': 'exceeded',
          'zael.level': 'entity',
          'zael.limit': 'rpm',
          'zael.refused_resource': 'gpt-4',
          'zael.retry_after': 60.001,
        },
        status: 0,
      },
    ])
  })

  it('belong to their own request when requests are concurrent', async () => {
    const limiter = scene.limiter({onDecision: observe({entities: true})})
    const names = ['a', 'b', 'c']
    const parents = await Promise.all(names.map(name => traced(() => limiter.acquire(request({rpm: 1}, name)))))
    const found = spans.getFinishedSpans()
    expect(new Map(found.map(span => [span.attributes['zael.entity'], span.parentSpanContext?.spanId]))).toEqual(
      new Map(names.map((name, at) => [name, parents[at]])),
    )
  })

  it('record failures', async () => {
    const limiter = scene.limiter({onDecision: observe()})
    await traced(() => failure(limiter.acquire({...request({rpm: 1}), signal: AbortSignal.abort()})))
    const [span] = spans.getFinishedSpans()
    expect(span).toMatchObject({status: {code: 2}, events: [{name: 'exception'}]})
  })

  it('name the further resources of a request, each once', async () => {
    const resources = ['eu', 'us'].map(entity => ({entity, resource: 'pool', consume: {rpm: 1}}))
    await traced(async () => {
      observe()({...EVENT, resources: {search: {rpm: 1}, tools: {rpm: 1}}})
      observe()({...EVENT, resources})
    })
    const named = spans.getFinishedSpans().map(({attributes}) => attributes['zael.resources'])
    expect(named).toEqual([['search', 'tools'], ['pool']])
  })

  it('last as long as the decision', async () => {
    await traced(async () => observe()({...EVENT, durationMs: 1234.5}))
    const [seconds = 0, nanos = 0] = spans.getFinishedSpans()[0]?.duration ?? []
    expect(seconds + nanos / 1e9).toBeCloseTo(1.2345, 3)
  })

  it('are not recorded outside a trace, nor if turned off', async () => {
    await scene.limiter({onDecision: observe()}).acquire(request({rpm: 1}))
    const silent = scene.limiter({onDecision: observe({spans: false})})
    await traced(() => silent.tryAcquire(request({rpm: 1})))
    expect(spans.getFinishedSpans()).toEqual([])
  })
})

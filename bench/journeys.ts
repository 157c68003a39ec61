import {createServer, request} from 'node:http'
import {Session} from 'node:inspector/promises'
import type {AddressInfo} from 'node:net'
import {fileURLToPath} from 'node:url'
import {createAggregator} from '../src/lib/aggregator/aggregator.js'
import {resolveConnection} from '../src/lib/dynamo/connection.js'
import {createTransport} from '../src/lib/dynamo/transports/create.js'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {openWatch} from '../src/lib/live/poll/watch.js'
import {Repository} from '../src/lib/repository/repository.js'
import {type Item, n, s} from '../src/lib/schema/attribute-value.js'
import {openEnvironment} from './environment.js'
import {textTable} from './report.js'

/**
 * Counts the files and functions of `src` that run for one operation, by V8's precise coverage, and the requests it sends.
 * Module initialisation does not count. `--files` lists the files of each journey, `--only NAME` runs one of them.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
process.env.OCLIF_DISABLE_ENGINE_WARNING ??= '1'
process.env.AWS_ACCESS_KEY_ID ??= 'local'
process.env.AWS_SECRET_ACCESS_KEY ??= 'local'
process.env.AWS_REGION ??= 'local'
const SOURCES = new URL('../src/', import.meta.url).href
const showsFiles = process.argv.includes('--files')
const onlyAt = process.argv.indexOf('--only')
const only = onlyAt < 0 ? undefined : process.argv[onlyAt + 1]

interface Journey {
  readonly name: string
  readonly files: readonly string[]
  readonly functions: number
  readonly requests: number
}

const inspector = new Session()
inspector.connect()
await inspector.post('Profiler.enable')
await inspector.post('Profiler.startPreciseCoverage', {callCount: true, detailed: false})

/** Counts requests to the engine, whichever transport sends them. */
async function countingProxy(engine: string) {
  let requests = 0
  const {hostname, port} = new URL(engine)
  const server = createServer((incoming, outgoing) => {
    requests++
    const forwarded = request(
      {hostname, port, method: incoming.method, path: incoming.url, headers: incoming.headers},
      response => {
        outgoing.writeHead(response.statusCode ?? 500, response.headers)
        response.pipe(outgoing)
      },
    )
    forwarded.on('error', () => outgoing.destroy())
    incoming.pipe(forwarded)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    count: () => requests,
    close: () => {
      server.closeAllConnections()
      return new Promise(resolve => server.close(resolve))
    },
  }
}

const environment = await openEnvironment()
const proxy = await countingProxy(environment.endpoint)
const journeys: Journey[] = []

async function measure(name: string, work: () => Promise<unknown>): Promise<void> {
  if (only !== undefined && !name.includes(only)) return
  await inspector.post('Profiler.takePreciseCoverage')
  const before = proxy.count()
  await work()
  const {result} = await inspector.post('Profiler.takePreciseCoverage')
  const files = new Set<string>()
  let functions = 0
  for (const {url, functions: seen} of result) {
    if (!url.startsWith(SOURCES)) continue
    // The anonymous function over the whole file is the module itself.
    const called = seen.filter(
      ({functionName, ranges: [range]}) =>
        range !== undefined && range.count > 0 && !(functionName === '' && range.startOffset === 0),
    )
    if (called.length === 0) continue
    files.add(url.slice(SOURCES.length).replace(/\?.*$/, ''))
    functions += called.length
  }
  journeys.push({name, files: [...files].sort(), functions, requests: proxy.count() - before})
}

/** In this process, without output. */
async function command(path: string, argv: readonly string[]): Promise<void> {
  const {default: Command} = await import(`../src/commands/${path}.js`)
  const root = fileURLToPath(new URL('..', import.meta.url))
  const write = process.stdout.write
  process.stdout.write = () => true
  try {
    await Command.run([...argv, '--endpoint-url', proxy.endpoint], {root})
  } finally {
    process.stdout.write = write
  }
}

const transport = createTransport({
  connection: resolveConnection({endpointUrl: proxy.endpoint}, {}),
  clock: Date.now,
})
const table = {...environment.newTenant(), transport}
const repository = new Repository({stack: table.name, transport})
try {
  const {namespace} = await repository.namespaces.register('default')
  const tenant = {...table, namespace: namespace.id}
  await environment.configure(tenant, {level: 'system'}, 'rpm=60', 'tpm=6000')
  const limiter = new RateLimiter({stack: table.name, namespaceId: namespace.id, transport, onUnavailable: 'block'})
  const ask = {entity: 'ada', resource: 'gpt-4', consume: {rpm: 1, tpm: 10}}
  for (let warming = 0; warming < 3; warming++) await limiter.acquire(ask)
  await measure('warm acquire', () => limiter.acquire(ask))
  const tooMuch = {...ask, consume: {tpm: 5990}}
  const refused = () =>
    limiter.acquire(tooMuch).then(
      () => Promise.reject(new Error('it was admitted')),
      () => {},
    )
  await refused()
  await measure('known refusal', refused)
  await limiter.acquire({...ask, entity: 'ben'})
  await limiter.close()

  const flags = ['--stack', table.name]
  await measure('limits set, two live buckets', () => command('limits/set', ['--system', 'rpm=90', ...flags]))

  const aggregator = createAggregator({table, log: () => {}})
  const bucket = (await environment.transport.send('Scan', {TableName: table.name})).Items?.find(item =>
    JSON.stringify(item.SK).includes('#STATE'),
  ) as Item
  const NewImage = {...bucket, b_tpm_tc: n(20_000), b_rpm_tc: n(2000), rq: n(2)}
  await measure('one stream record', () =>
    aggregator.handle({
      Records: [
        {
          eventName: 'MODIFY',
          eventSourceARN: 'arn:aws:dynamodb:::table/bench/stream/2026-01-01T00:00:00.000',
          dynamodb: {
            ApproximateCreationDateTime: Math.floor(Date.now() / 1000),
            Keys: {PK: bucket.PK ?? s(''), SK: bucket.SK ?? s('')},
            OldImage: {...bucket, b_tpm_tc: n(10_000), b_rpm_tc: n(1000), rq: n(1)},
            NewImage,
            SequenceNumber: '1001',
          },
        },
      ],
    }),
  )

  await pollToFrame(namespace.id)
  await oldItems()
  await measure('migrate run, two old items', () => command('migrate/run', ['--yes', ...flags]))
} finally {
  await transport.close()
  await proxy.close()
  await environment.close()
  inspector.disconnect()
}

/** From the timer of a poll to the frame that shows it. */
async function pollToFrame(id: string): Promise<void> {
  const {showLiveView} = await import('../src/lib/live/screen/live-view.js')
  const {PassThrough} = await import('node:stream')
  const timers: (() => void)[] = []
  const watch = openWatch({
    repository: repository.namespaceById(id),
    table,
    scope: {kind: 'namespace'},
    intervalMs: 1000,
    timers: {setTimeout: callback => timers.push(callback), clearTimeout: () => {}},
  })
  await watch.start()
  let frame = () => {}
  const stdout = Object.assign(new PassThrough().resume(), {
    isTTY: true,
    columns: 120,
    rows: 40,
    getColorDepth: () => 8,
  })
  const written = stdout.write.bind(stdout)
  stdout.write = ((...parts: Parameters<typeof written>) => {
    frame()
    return written(...parts)
  }) as typeof stdout.write
  const stdin = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: () => stdin,
    ref: () => stdin,
    unref: () => stdin,
  })
  const view = showLiveView(watch, {
    ...{stack: table.name, namespace: 'default', where: 'here', ascii: false, top: undefined, forMs: undefined},
    selection: {filter: '', sort: 'left', reversed: false},
    stdin: stdin as unknown as NodeJS.ReadStream,
    stdout: stdout as unknown as NodeJS.WriteStream,
  })
  await new Promise(resolve => setTimeout(resolve, 300))
  await measure('one poll to frame', async () => {
    const polled = new Promise<void>(resolve => {
      const stop = watch.subscribe(() => {
        stop()
        resolve()
      })
    })
    const shown = polled.then(
      () =>
        new Promise<void>(resolve => {
          frame = resolve
        }),
    )
    for (const fire of timers.splice(0)) fire()
    await shown
  })
  stdin.write('q')
  await view
  await watch.stop()
}

/** An entity and a bucket as 0.8 stored them. */
async function oldItems(): Promise<void> {
  const common = {PK: s('ENTITY#old'), entity_id: s('old')}
  const limit = {b_rpm_tk: n(7000), b_rpm_cp: n(10_000), b_rpm_bx: n(10_000), b_rpm_ra: n(10_000), b_rpm_rp: n(60_000)}
  const items: Item[] = [
    {
      ...common,
      SK: s('#META'),
      name: s('old'),
      parent_id: {NULL: true},
      metadata: {M: {}},
      created_at: s('2026-01-01T00:00:00Z'),
    },
    {
      ...common,
      SK: s('#BUCKET#gpt-4'),
      resource: s('gpt-4'),
      rf: n(Date.now()),
      b_rpm_tc: n(3000),
      ...limit,
      GSI2PK: s('RESOURCE#gpt-4'),
      GSI2SK: s('BUCKET#old'),
    },
  ]
  for (const put of items) await environment.transport.send('PutItem', {TableName: table.name, Item: put})
}

const inRoom = (files: readonly string[], room: string) => files.filter(file => file.startsWith(room)).length
process.stdout.write(
  `${textTable(
    ['journey', 'files', 'of them in limiter', 'functions', 'requests'],
    journeys.map(({name, files, functions, requests}) => [
      name,
      ...[files.length, inRoom(files, 'lib/limiter/'), functions, requests].map(String),
    ]),
  )}\n`,
)
if (showsFiles)
  for (const {name, files} of journeys) process.stdout.write(`\n${name}\n${files.map(file => `  ${file}\n`).join('')}`)

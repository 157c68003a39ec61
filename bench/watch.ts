import {spawn} from 'node:child_process'
import {readFileSync} from 'node:fs'
import {createInterface} from 'node:readline'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {parseLimits, rateOf} from '../src/lib/core/limit.js'
import {batchWrite} from '../src/lib/dynamo/batch.js'
import {Repository} from '../src/lib/repository/repository.js'
import {encodeBucket, freshWritePressure} from '../src/lib/schema/bucket-record.js'
import {type Reading, SORT_KEYS} from '../src/lib/watch/model.js'
import {rank} from '../src/lib/watch/rank.js'
import {nextReading} from '../src/lib/watch/reading.js'
import {resourcesAt} from '../src/lib/watch/resources.js'
import {rowAt} from '../src/lib/watch/rows.js'
import {totalsAt} from '../src/lib/watch/totals.js'
import {percentile} from './measure.js'
import {setStage} from './stage.js'
import {short, textTable} from './text-table.js'

/**
 * What it costs to watch 10,000 buckets: the arithmetic in this process, polls, memory and processor time of the built
 * command line in one of its own. See bench/README.md. `--minutes 10` for the long run, `--buckets 1000` and
 * `--interval 500` (ms) for other numbers.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const option = (name: string, otherwise: number): number => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? otherwise : Number(process.argv[at + 1])
}
const BUCKETS = option('buckets', 10_000)
const MINUTES = option('minutes', 1)
const INTERVAL_MS = option('interval', 2000)
const ON_SCREEN = 50
const TICKS_PER_SECOND = 100
const ZAEL = fileURLToPath(new URL('../bin/run.js', import.meta.url))
const say = (text = '') => process.stdout.write(`${text}\n`)

/** What the command tells of each poll. */
interface Poll {
  readonly durationMs: number
  readonly readUnits: number
  readonly calls: number
  readonly bucketsRead: number
  readonly totals: {readonly buckets: number}
}

const limits = new Map(
  parseLimits(['rpm=6000', 'tpm=600k']).map(limit => {
    return [limit.name, {...rateOf(limit), tokensMilli: 1000n, remainder: 0n, consumedMilli: 0n}] as const
  }),
)

const stage = await setStage()
try {
  say(`${stage.engineName}, Node ${process.versions.node}, ${BUCKETS} buckets`)
  say()
  tellArithmetic()
  const space = stage.newSpace()
  const repository = new Repository({stack: space.name, transport: stage.transport})
  const {namespace} = await repository.namespaces.register('default')
  const buckets = Array.from({length: BUCKETS}, (_, at) => ({put: encodeBucket(record(namespace.id, at))}))
  await batchWrite(stage.transport, space.name, buckets, {backoff: space.backoff})
  const limiter = stage.limiter({...space, namespace: namespace.id})
  await stage.configure({...space, namespace: namespace.id}, {level: 'system'}, 'rpm=6000', 'tpm=600k')
  say()
  await watch(space.name, at =>
    limiter.acquire({entity: `user-${at % 200}`, resource: 'r0', consume: {rpm: 1, tpm: 9}}),
  )
  await limiter.close()
} finally {
  await stage.close()
}

function record(namespace: string, at: number) {
  const state = {refilledAtMs: Date.now(), limits: new Map([...limits, ['wcu', freshWritePressure()] as const])}
  const rest = {shard: 0, shardCount: 1, cascade: false, parent: undefined, ttlSeconds: undefined, state}
  return {namespace, entity: `user-${at}`, resource: `r${Math.floor(at / 200) % 8}`, ...rest}
}

function tellArithmetic(): void {
  const readings = Array.from({length: BUCKETS}, (_, at): Reading => {
    const {entity, resource, ...rest} = record('ns', at)
    const stored = {kind: 'bucket', record: {entity, resource, ...rest}, incomplete: new Map()} as const
    return nextReading(undefined, {entity, resource, shardCount: 1, shards: [stored]}, Date.now())
  })
  const time = (name: string, work: (nowMs: number) => unknown): string[] => {
    const durations = Array.from({length: 9}, (_, round) => {
      const startMs = performance.now()
      work(Date.now() + round)
      return performance.now() - startMs
    })
    return [name, short(durations[0] ?? Number.NaN), short(percentile(durations, 0.5))]
  }
  const selection = {reversed: false, filter: ''}
  say(
    textTable(
      ['arithmetic', 'first ms', 'p50 ms'],
      [
        ...SORT_KEYS.map(sort => time(`rank by ${sort}`, nowMs => rank(readings, nowMs, {...selection, sort}))),
        time('rank, filtered', nowMs => rank(readings, nowMs, {reversed: false, sort: 'left', filter: 'user-1'})),
        time('totals', nowMs => totalsAt(readings, nowMs)),
        time('resources', nowMs => resourcesAt(readings, nowMs)),
        time(`${ON_SCREEN} rows`, nowMs => readings.slice(0, ON_SCREEN).map(reading => rowAt(reading, nowMs))),
      ],
    ),
  )
}

/** The command in a process of its own, with a little traffic beside it. */
async function watch(stack: string, request: (number: number) => Promise<unknown>): Promise<void> {
  const flags = ['--stack', stack, '--endpoint-url', stage.endpoint, '--json', '--interval', `${INTERVAL_MS}ms`]
  const child = spawn(process.execPath, [ZAEL, 'watch', ...flags, '--for', `${MINUTES * 60}s`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()))
  const polls: Poll[] = []
  createInterface(child.stdout).on('line', line => polls.push(JSON.parse(line)))
  const startedMs = performance.now()
  const elapsed = () => performance.now() - startedMs
  const rows: string[][] = []
  try {
    for (let sent = 0; child.exitCode === null && elapsed() < MINUTES * 60_000; ) {
      await sleep(1000)
      for (const _ of Array(5)) await request(sent++)
      const isDue = elapsed() >= ((rows.length + 1) * MINUTES * 60_000) / 6 - 1500
      if (isDue && child.exitCode === null)
        rows.push([short(elapsed() / 1000), ...footprint(child.pid as number, polls)])
    }
    await ended
  } finally {
    child.kill()
  }
  say(textTable(['elapsed s', 'polls', 'buckets', 'memory MB', 'processor %'], rows))
  say()
  const spread = (name: string, of: (poll: Poll) => number) => {
    const numbers = polls.map(of)
    return [name, short(percentile(numbers, 0.5)), short(percentile(numbers, 0.99)), short(Math.max(...numbers))]
  }
  say(
    textTable(
      ['one poll', 'p50', 'p99', 'most'],
      [
        spread('ms', ({durationMs}) => durationMs),
        spread('read units', ({readUnits}) => readUnits),
        spread('calls', ({calls}) => calls),
        spread('buckets read', ({bucketsRead}) => bucketsRead),
      ],
    ),
  )
}

/** Linux only, like the engine. Processor time since the start, of one core. */
function footprint(pid: number, polls: readonly Poll[]): string[] {
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1])
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  const [user, system, startTicks] = [stat[11], stat[12], stat[19]].map(Number) as [number, number, number]
  const upTicks = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * TICKS_PER_SECOND
  const processor = ((user + system) / (upTicks - startTicks)) * 100
  return [
    String(polls.length),
    String(polls.at(-1)?.totals.buckets ?? 0),
    short((pages * 4096) / 1e6),
    short(processor),
  ]
}

import {readdirSync, readFileSync, statSync} from 'node:fs'
import {join} from 'node:path'
import {DemoStack} from '../docs/demo/stack.js'
import {defineLimits, RateLimiter, Repository} from '../src/lib/index.js'
import {numberOption, option, say, short, textTable} from './report.js'

/**
 * Measures speed, memory and disk of a local stack over a long time. See
 * bench/README.md. `--acquires 20000` for a shorter run, `--engine NAME` for another engine.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const ACQUIRES = numberOption('acquires', 200_000)
const CHUNK = 10_000
const BUCKETS = 500
const LANES = 32

interface Status {
  readonly endpoint: string
  readonly engine: string
  readonly dataDir: string
  readonly pid: number
  readonly enginePid: number
  readonly aggregator: {readonly records: number; readonly lagMs: number; readonly streamLength: number | null}
}

const stack = await DemoStack.inOwnFolder()
const status = async () => (await stack.ask('local', 'status')) as unknown as Status
try {
  const engine = option('engine')
  await stack.ask('local', 'up', ...(engine === undefined ? [] : ['--engine', engine]))
  const {endpoint, engine: name} = await status()
  say(`${name}, ${ACQUIRES} acquires over ${BUCKETS} buckets, ${LANES} at once`)
  const repository = new Repository({stack: 'local', endpoint})
  await (await repository.namespace()).setLimits({level: 'system'}, defineLimits(['rpm=1000/min:10M']))
  const limiter = new RateLimiter({stack: 'local', endpoint, onUnavailable: 'block', timeoutMs: 30_000})
  const rows: string[][] = []
  for (let done = 0; done < ACQUIRES; done += CHUNK) {
    const perSecond = await acquire(limiter, CHUNK)
    rows.push([`${done + CHUNK}`, short(perSecond), ...(await footprint())])
  }
  const header = ['acquires', 'per second', 'data MB', 'engine MB', 'supervisor MB', 'stream', 'lag s']
  say(textTable(header, rows))
  await limiter.close()
  await repository.close()
} finally {
  await stack.ask('local', 'down', '--purge', '--yes')
  await stack.remove()
}

async function acquire(limiter: RateLimiter, count: number): Promise<number> {
  const startMs = performance.now()
  let left = count
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const entity = `user-${Math.floor(Math.random() * BUCKETS)}`
      await limiter.acquire({entity, resource: 'gpt-4', consume: {rpm: 1}})
    }
  }
  await Promise.all(Array.from({length: LANES}, lane))
  return (count * 1000) / (performance.now() - startMs)
}

async function footprint(): Promise<string[]> {
  const {dataDir, pid, enginePid, aggregator} = await status()
  const {streamLength, lagMs} = aggregator
  const sizes = [folderBytes(dataDir), residentBytes(enginePid), residentBytes(pid)].map(bytes => short(bytes / 1e6))
  return [...sizes, String(streamLength ?? '-'), short(lagMs / 1000)]
}

function folderBytes(folder: string): number {
  return readdirSync(folder, {recursive: true, encoding: 'utf8'}).reduce(
    (sum, name) => sum + statSync(join(folder, name)).size,
    0,
  )
}

/** Linux only, like the engine. */
function residentBytes(pid: number): number {
  const pages = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]
  return Number(pages) * 4096
}

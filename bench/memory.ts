import {readdirSync, readlinkSync} from 'node:fs'
import {setFlagsFromString} from 'node:v8'
import {runInNewContext} from 'node:vm'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {importCompiled} from './compiled.js'
import {openEnvironment} from './environment.js'
import {machineLine, numberOption, say, short, textTable} from './report.js'

/**
 * Measures memory and cache entries of one limiter with the wire stubbed, then
 * descriptors and sockets against an engine. See bench/README.md. `--entities 100000` for a shorter run.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const MOST = numberOption('entities', 1_000_000)
const ON_ENGINE = 20_000
const LANES = 64
const CACHE_SIZES = [1000, 10_000]
const {startCrowd} = (await importCompiled('memory-crowd')) as typeof import('./memory-crowd.js')

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

const megabytes = (bytes: number) => short(bytes / 1e6)
const descriptors = () => readdirSync('/proc/self/fd').map(fd => linkOf(`/proc/self/fd/${fd}`))

say(`${machineLine('wire stubbed')}\n`)
const rows: string[][] = []
for (const cacheSize of CACHE_SIZES) {
  const crowd = startCrowd(cacheSize)
  collect()
  rows.push([short(cacheSize), '0', ...memory(), ...Array(5).fill('')])
  for (const seen of [10_000, 100_000, 1_000_000].filter(count => count <= MOST)) {
    const startMs = performance.now()
    await crowd.until(seen, LANES)
    const {queues, entities, seen: families, configs, refusals} = crowd.entries()
    const peak = [queues, Math.max(entities, families), configs, refusals].map(short)
    // Twice: the first round runs finalisers.
    for (let round = 0; round < 2; round++) collect()
    const seconds = short((performance.now() - startMs) / 1000)
    rows.push([short(cacheSize), short(seen), ...memory(), ...peak, seconds])
  }
  const {admitted, refused, unwritten} = await crowd.end()
  say(`cacheSize ${short(cacheSize)}: ${admitted} admitted, ${refused} refused, ${unwritten} refusals not written`)
}
say(
  `\n${textTable(['cacheSize', 'seen', 'heap MB', 'resident MB', 'queues', 'entities', 'configs', 'refusals', 's'], rows)}\n`,
)

const environment = await openEnvironment()
try {
  const tenant = environment.newTenant()
  await environment.configure(tenant, {level: 'resource', resource: 'gpt-4'}, 'rpm=1/hour')
  const before = descriptors()
  const {name: stack, namespace: namespaceId} = tenant
  const limiter = new RateLimiter({stack, namespaceId, endpoint: environment.endpoint, timeoutMs: 30_000})
  let [next, most] = [0, 0]
  const lane = async () => {
    while (next < ON_ENGINE) {
      const request = {entity: `user-${next++}`, resource: 'gpt-4', consume: {rpm: 1}}
      await limiter.acquire(request)
      await limiter.tryAcquire(request)
      if (next % 500 === 0) most = Math.max(most, descriptors().length)
    }
  }
  await Promise.all(Array.from({length: LANES}, lane))
  const after = descriptors()
  await limiter.close()
  const closed = descriptors()
  const sockets = (all: readonly string[]) => all.filter(target => target.startsWith('socket:')).length
  const line = (when: string, all: readonly string[]) => [when, String(all.length), String(sockets(all))]
  say(`${environment.engineName}: ${short(ON_ENGINE)} entities, ${LANES} at once, at most ${most} descriptors`)
  say(textTable(['', 'descriptors', 'sockets'], [line('before', before), line('after', after), line('closed', closed)]))
} finally {
  await environment.close()
}

function memory(): string[] {
  const {heapUsed, rss} = process.memoryUsage()
  return [megabytes(heapUsed), megabytes(rss)]
}

/** Empty if closed meanwhile, such as the descriptor of the listing itself. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

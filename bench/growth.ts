import {type ChildProcessByStdio, spawn} from 'node:child_process'
import {createWriteStream} from 'node:fs'
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import type {Readable} from 'node:stream'
import {text} from 'node:stream/consumers'
import {type CountingProxy, countingProxy} from './counting-proxy.js'
import {openEnvironment} from './environment.js'
import {entityId, fillTable} from './growth-table.js'
import {machineLine, numberOption, option, say, short, textTable} from './report.js'
import {ZAEL} from './watch-crowd.js'

/**
 * Measures commands on a table with many entities: calls, units, peak memory and processor time of the built command line, in
 * a separate process each. See bench/README.md. `--entities 100000`, `--usage-hours 24`, `--only WORDS` for matching commands,
 * `--seconds 600` as the timeout of a command, `--data FOLDER` to keep and reuse the table.
 */
const ENTITIES = numberOption('entities', 10_000)
const USAGE_HOURS = numberOption('usage-hours', 0)
const SECONDS = numberOption('seconds', 200)
const ONLY = option('only') ?? ''

/** Writes peak memory (kB) and processor time (µs) to a separate descriptor when the process exits. */
const REPORT_USAGE = `data:text/javascript,${encodeURIComponent(
  `import {writeSync} from 'node:fs'
   process.on('exit', () => writeSync(3, JSON.stringify(process.resourceUsage())))`,
)}`

interface Measured {
  readonly calls: number
  readonly read: number
  readonly write: number
  readonly peakMb: number
  readonly cpuSeconds: number
  readonly outputMb: number
  readonly code: number | null
}

const COMMANDS: readonly string[] = [
  'entity list',
  'entity list --all',
  'entity list --all --json',
  `entity list --filter ${entityId(ENTITIES / 2).slice(0, -1)}`,
  `entity list --prefix ${entityId(ENTITIES / 2).slice(0, -1)}`,
  `entity show ${entityId(1)}`,
  'entity children team-00000000',
  'limits list',
  'limits list --all --json',
  `limits get --entity ${entityId(1)} --resource gpt-4`,
  'limits export',
  'limits export --json',
  'limits export --output csv',
  'limits validate -f MANIFEST',
  'limits plan -f MANIFEST',
  'limits plan -f MANIFEST --json',
  'limits diff -f MANIFEST',
  'limits apply -f MANIFEST --dry-run',
  'limits boosts',
  'bucket list --resource gpt-4',
  'bucket list --resource gpt-4 --all',
  'bucket list --resource gpt-4 --all --json',
  `bucket show ${entityId(1)}`,
  `why ${entityId(1)} gpt-4`,
  'watch --once',
  'watch --once --all',
  'watch --once --all --json',
  'watch --once --all --json --top 10',
  'usage top',
  'usage top --by entity,tpm',
  'usage summary --resource gpt-4',
  'usage summary --resource gpt-4 --window daily --since 7d',
  'verify',
  'audit list',
  'namespace show default',
  'status',
  // Adopts everything, and plans again with the record of managed scopes.
  'limits apply -f MANIFEST --yes',
  'limits plan -f MANIFEST',
  'limits list',
]

async function measure(command: string, where: readonly string[], proxy: CountingProxy, file: string) {
  const before = proxy.meter.snapshot()
  const child = spawn(process.execPath, ['--import', REPORT_USAGE, ZAEL, ...command.split(' '), ...where], {
    // Node reads extra certificates at every start, which slows it down.
    env: {PATH: process.env.PATH, HOME: tmpdir(), NO_COLOR: '1'},
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  }) as ChildProcessByStdio<null, Readable, Readable>
  const timer = setTimeout(() => child.kill(), SECONDS * 1000)
  let outputBytes = 0
  child.stdout.on('data', chunk => {
    outputBytes += chunk.length
  })
  const kept = createWriteStream(file)
  child.stdout.pipe(kept)
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  const [error, usage] = await Promise.all([text(child.stderr), text(child.stdio[3] as NodeJS.ReadableStream)])
  const code = await ended
  clearTimeout(timer)
  if (code !== 0) say(`${command}: exit code ${code}; ${error.trim().split('\n')[0] ?? ''}`)
  const {maxRSS = Number.NaN, userCPUTime = Number.NaN, systemCPUTime = 0} = usage === '' ? {} : JSON.parse(usage)
  const {calls, read, write} = proxy.meter.since(before)
  const cpuSeconds = (userCPUTime + systemCPUTime) / 1e6
  return {calls, read, write, peakMb: maxRSS / 1024, cpuSeconds, outputMb: outputBytes / 1e6, code}
}

const environment = await openEnvironment({dataDir: option('data')})
const folder = await mkdtemp(join(tmpdir(), 'zael-growth-'))
try {
  await using proxy = await countingProxy(environment.endpoint)
  const startedMs = performance.now()
  const name = await fillTable(environment, {entities: ENTITIES, usageHours: USAGE_HOURS})
  say(machineLine(environment.engineName))
  const filled = `filled in ${short((performance.now() - startedMs) / 1000)} s`
  say(`${ENTITIES.toLocaleString('en-US')} entities, ${USAGE_HOURS} hours of usage each; ${filled}\n`)
  const where = ['--stack', name, '--endpoint-url', proxy.endpoint]
  const manifest = join(folder, 'limits.yaml')
  const rows: string[][] = []
  for (const command of COMMANDS.filter(
    each => each.includes(ONLY) || (each === 'limits export' && ONLY.startsWith('limits')),
  )) {
    const file = command === 'limits export' ? manifest : join(folder, 'output')
    const {calls, read, write, peakMb, cpuSeconds, outputMb, code}: Measured = await measure(
      command.replace('MANIFEST', manifest),
      // Needs no table.
      command.startsWith('limits validate') ? [] : where,
      proxy,
      file,
    )
    const exit = code === 0 ? '' : String(code ?? 'ended')
    const row = [
      command,
      String(calls),
      short(read),
      short(write),
      short(peakMb),
      short(cpuSeconds),
      short(outputMb),
      exit,
    ]
    process.stderr.write(`${row.join('  ')}\n`)
    rows.push(row)
  }
  say(textTable(['command', 'calls', 'read units', 'write units', 'peak MB', 'CPU s', 'output MB', 'exit'], rows))
} finally {
  await rm(folder, {recursive: true, force: true})
  await environment.close()
}

import {type ChildProcess, spawn} from 'node:child_process'
import {randomBytes} from 'node:crypto'
import {once} from 'node:events'
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import {afterEach, beforeEach, expect, inject, it} from 'vitest'
import {createAggregator} from '../../../src/lib/aggregator/aggregator.js'
import {StreamPoller} from '../../../src/lib/aggregator/local-stream/poller.js'
import {sleepMs} from '../../../src/lib/dynamo/retry.js'
import {wireKey} from '../../../src/lib/repository/table/table.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {readRefusals} from '../../../src/lib/schema/refusal-counts.js'
import {decodeUsage} from '../../../src/lib/schema/usage-record.js'
import {usageItems} from '../../aggregator/fixtures/stored-usage.js'
import {openStreams, until} from '../../aggregator/local-stream/poll-support.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {seededRandom} from '../fixtures/seeded-random.js'

/** `ZAEL_TEST_SIZE=full` runs the sizes that the goals name; otherwise enough to notice a lost or doubled count. */
const SIZE =
  process.env.ZAEL_TEST_SIZE === 'full'
    ? {processes: 8, requests: 2500, kills: 24, timeoutMs: 900_000}
    : {processes: 2, requests: 150, kills: 2, timeoutMs: 300_000}

const PROGRAM = fileURLToPath(new URL('../fixtures/refusing-process.ts', import.meta.url))
const RESOURCE = 'gpt-4'
const ENTITIES = ['user-1', 'user-2', 'user-3']

/** What a process has reported last. */
interface Report {
  readonly refused: Readonly<Record<string, number>>
  /** Of those, not written for all that it knows. */
  readonly uncounted: number
  /** Of those, refused without a call. */
  readonly known: number
  readonly isDone: boolean
}

describeOnEngine('refusals of several processes', {timeout: SIZE.timeoutMs}, () => {
  const table = useTable({stream: true})
  let scene: Scene
  let folder = ''
  const children = new Set<ChildProcess>()

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: RESOURCE}, 'rpm=200/min', 'tpm=600/min:100')
  })
  afterEach(async () => {
    await Promise.all([...children].map(kill))
    await rm(folder, {recursive: true, force: true})
  })

  /** Starts a process; `reports` grows with what it says. */
  function start(seed: number): {child: ChildProcess; reports: Report[]; ended: Promise<unknown>} {
    const args = [inject('engineEndpoint'), table.name, scene.namespace, ENTITIES.join(), String(SIZE.requests)]
    const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, ...args, String(seed)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {PATH: process.env.PATH, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true'},
    })
    children.add(child)
    const reports: Report[] = []
    const lines = createInterface({input: child.stdout as NodeJS.ReadableStream})
    lines.on('line', line => reports.push(JSON.parse(line) as Report))
    return {child, reports, ended: Promise.all([once(child, 'exit'), once(lines, 'close')])}
  }

  async function kill(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  /** Requests refused, as the buckets have counted them. */
  async function inBuckets(): Promise<number> {
    let sum = 0
    for (const entity of ENTITIES) {
      const Key = wireKey(keys.bucket(scene.namespace, entity, RESOURCE, 0))
      const {Item = {}} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
      sum += readRefusals(Item).requests
    }
    return sum
  }

  /** The same as the usage records have counted them, of every window once. */
  async function inUsage(): Promise<Record<string, number>> {
    const sums: Record<string, number> = {}
    for (const entity of ENTITIES) {
      for (const item of await usageItems(table, scene.namespace, entity)) {
        const record = decodeUsage(item)
        if (record) sums[record.window] = (sums[record.window] ?? 0) + (record.refused?.requests ?? 0)
      }
    }
    return sums
  }

  /** Reads the stream with the code that Lambda runs, until the usage records hold what the buckets do. */
  async function aggregate(): Promise<void> {
    const {name, transport} = table
    const backoff = {random: Math.random, sleep: sleepMs}
    const aggregator = createAggregator({
      table: {name, transport, clock: Date.now, randomBytes, backoff},
      log: () => {},
    })
    const poller = new StreamPoller({
      tableName: name,
      transport,
      stream: openStreams(inject('engineEndpoint')),
      checkpointFile: join(folder, 'checkpoint.json'),
      handler: event => aggregator.handle(event),
      clock: Date.now,
      sleep: sleepMs,
      log: () => {},
    })
    poller.start()
    const wanted = await inBuckets()
    await until(async () => {
      const {hourly = 0, daily = 0, monthly = 0} = await inUsage()
      return hourly >= wanted && daily >= wanted && monthly >= wanted
    })
    await poller.stop()
  }

  const made = (reports: readonly (Report | undefined)[]): number =>
    reports.flatMap(report => Object.values(report?.refused ?? {})).reduce((sum, count) => sum + count, 0)

  it('are all in the usage records when nobody is killed, and most of them cost no call', async () => {
    const processes = Array.from({length: SIZE.processes}, (_, seed) => start(seed + 1))
    await Promise.all(processes.map(({ended}) => ended))
    const last = processes.map(({reports}) => reports.at(-1) as Report)
    expect(last.map(({isDone, uncounted}) => ({isDone, uncounted}))).toEqual(
      last.map(() => ({isDone: true, uncounted: 0})),
    )
    const refused = made(last)
    const known = last.reduce((sum, report) => sum + report.known, 0)
    expect(refused).toBeGreaterThan((SIZE.processes * SIZE.requests) / 2)
    expect(known).toBeGreaterThan(refused / 2)
    expect(await inBuckets()).toBe(refused)
    await aggregate()
    expect(await inUsage()).toEqual({hourly: refused, daily: refused, monthly: refused})
  })

  it('lie between what was written and what was made when processes are killed and started again', async () => {
    const random = seededRandom(7)
    const processes = Array.from({length: SIZE.processes}, (_, seed) => start(seed + 1))
    for (let count = 0; count < SIZE.kills; count++) {
      const victim = processes[Math.floor(random() * SIZE.processes)] as (typeof processes)[number]
      const progress = victim.reports.length + 1 + Math.floor(random() * 60)
      await Promise.race([until(() => victim.reports.length >= progress), victim.ended])
      await kill(victim.child)
      processes.push(start(100 + count))
    }
    await Promise.all(processes.map(({ended}) => ended))
    const last = processes.map(({reports}) => reports.at(-1))
    const highest = made(last)
    // A process that was killed may have been told of one more refusal than it had time to report.
    const unreported = last.filter(report => !report?.isDone).length
    const lost = last.reduce((sum, report) => sum + (report?.uncounted ?? 0), 0)
    const counted = await inBuckets()
    expect(counted).toBeLessThanOrEqual(highest + unreported)
    expect(counted).toBeGreaterThanOrEqual(highest - lost)
    await aggregate()
    expect(await inUsage()).toEqual({hourly: counted, daily: counted, monthly: counted})
  })
})

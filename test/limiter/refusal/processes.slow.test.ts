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
import {sleepMs} from '../../../src/lib/dynamo/retry.js'
import {StreamPoller} from '../../../src/lib/local/stream/poller.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {addRefusals, type RefusalCounts, readRefusals} from '../../../src/lib/schema/refusal-counts.js'
import {decodeUsage} from '../../../src/lib/schema/usage-record.js'
import {usageItems} from '../../aggregator/fixtures/stored-usage.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {openStreams, until} from '../../local/stream/poll-support.js'
import {seededRandom} from '../fixtures/seeded-random.js'

/** `ZAEL_TEST_SIZE=full` runs the full sizes; otherwise enough to notice a lost or doubled count. */
const SIZE =
  process.env.ZAEL_TEST_SIZE === 'full'
    ? {processes: 8, requests: 2500, kills: 3, timeoutMs: 900_000}
    : {processes: 2, requests: 150, kills: 1, timeoutMs: 300_000}

const PROGRAM = fileURLToPath(new URL('../fixtures/refusing-process.ts', import.meta.url))
const RESOURCE = 'gpt-4'
const ENTITIES = ['user-1', 'user-2', 'user-3']
/** Used up for the rest of the day: its bucket only refuses. */
const EMPTY = 'user-3'
/** Most tokens of `tpm` that a process asks for at once. */
const LARGEST = 40

/** Refused requests, and those of each exceeded limit with the requested tokens. */
interface Refused {
  readonly requests: number
  readonly limits: Readonly<Record<string, {readonly requests: number; readonly tokens: number}>>
}

/** The last report of a process. */
interface Report {
  /** Requests so far. */
  readonly made: number
  readonly refused: Refused
  /** Of those, not known to be written. */
  readonly uncounted: number
  /** Of those, refused when earlier responses already implied it. */
  readonly known: number
  /** Calls while these were decided. */
  readonly callsForKnown: number
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
    await scene.configure({level: 'entity', entity: EMPTY, resource: RESOURCE}, 'rpm=200/min', 'tpm=100/day')
  })
  afterEach(async () => {
    await Promise.all([...children].map(kill))
    await rm(folder, {recursive: true, force: true})
  })

  /** Starts a process that makes this many requests; `reports` collects its reports. */
  function start(seed: number, requests: number): {child: ChildProcess; reports: Report[]; ended: Promise<unknown>} {
    const args = [inject('engineEndpoint'), table.name, scene.namespace, ENTITIES.join(), String(requests)]
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

  /** Refused requests as counted by the buckets. */
  async function inBuckets(): Promise<Refused> {
    const counts: RefusalCounts[] = []
    for (const entity of ENTITIES) {
      const Key = wireKey(keys.bucket(scene.namespace, entity, RESOURCE, 0))
      const {Item = {}} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
      counts.push(readRefusals(Item))
    }
    return total(counts)
  }

  /** The same as counted by the usage records: the sum of all windows of a kind. */
  async function inUsage(): Promise<Record<string, Refused>> {
    const counts: Record<string, RefusalCounts[]> = {hourly: [], daily: [], monthly: []}
    for (const entity of ENTITIES) {
      for (const item of await usageItems(table, scene.namespace, entity)) {
        const record = decodeUsage(item)
        if (record?.refused) counts[record.window]?.push(record.refused)
      }
    }
    return Object.fromEntries(Object.entries(counts).map(([window, all]) => [window, total(all)]))
  }

  /** Reads the stream with the Lambda code until the usage records match the buckets. */
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
      const windows = Object.values(await inUsage())
      return windows.every(({requests}) => requests >= wanted.requests)
    })
    await poller.stop()
  }

  it('are all in the usage records, with their tokens, if no process is killed; known ones cost no call', async () => {
    const processes = Array.from({length: SIZE.processes}, (_, seed) => start(seed + 1, SIZE.requests))
    await Promise.all(processes.map(({ended}) => ended))
    const last = processes.map(({reports}) => reports.at(-1) as Report)
    const done = {made: SIZE.requests, uncounted: 0, callsForKnown: 0, isDone: true}
    expect(last).toMatchObject(last.map(() => done))
    const refused = sum(last.map(report => report.refused))
    expect(refused.requests).toBeGreaterThan((SIZE.processes * SIZE.requests) / 2)
    const known = last.reduce((count, report) => count + report.known, 0)
    expect(known).toBeGreaterThan(refused.requests / 4)
    expect(await inBuckets()).toEqual(refused)
    await aggregate()
    expect(await inUsage()).toEqual({hourly: refused, daily: refused, monthly: refused})
    const {processes: count, requests} = SIZE
    console.log(
      `refusals, nobody killed: ${refused.requests} of ${count * requests} refused and counted, ${known} known`,
    )
  })

  it('lie between the written and the made ones if processes are killed and restarted', async () => {
    const random = seededRandom(7)
    const last: Report[] = []
    /** Makes its requests in several lives; all but the last end with a kill. */
    async function live(process: number): Promise<void> {
      const moments = Array.from({length: SIZE.kills}, () => 1 + random() * (SIZE.requests / (SIZE.kills + 1)))
      let left = SIZE.requests
      for (const [life, moment] of moments.entries()) {
        const victim = start(100 * life + process, Number.MAX_SAFE_INTEGER)
        await Promise.race([until(() => victim.reports.length >= moment), victim.ended])
        await kill(victim.child)
        await victim.ended
        const report = victim.reports.at(-1) as Report
        last.push(report)
        left -= report.made
      }
      const survivor = start(1000 + process, Math.max(1, left))
      await survivor.ended
      last.push(survivor.reports.at(-1) as Report)
    }
    await Promise.all(Array.from({length: SIZE.processes}, (_, process) => live(process + 1)))

    const killed = last.filter(({isDone}) => !isDone)
    expect(killed).toHaveLength(SIZE.processes * SIZE.kills)
    expect(last.filter(({callsForKnown}) => callsForKnown > 0)).toEqual([])
    const made = sum(last.map(({refused}) => refused))
    // A killed process may have seen one more refusal than it had time to report.
    const unreported = killed.length
    const lost = last.reduce((count, {uncounted}) => count + uncounted, 0)
    const counted = await inBuckets()
    const bounds = [
      [counted.requests, made.requests, 1],
      [counted.limits.tpm?.requests ?? 0, made.limits.tpm?.requests ?? 0, 1],
      [counted.limits.tpm?.tokens ?? 0, made.limits.tpm?.tokens ?? 0, LARGEST],
    ] as const
    for (const [stored, reported, each] of bounds) {
      expect(stored).toBeLessThanOrEqual(reported + unreported * each)
      expect(stored).toBeGreaterThanOrEqual(reported - lost * each)
    }
    await aggregate()
    expect(await inUsage()).toEqual({hourly: counted, daily: counted, monthly: counted})
    const [low, high] = [made.requests - lost, made.requests + unreported]
    console.log(
      `refusals, ${unreported} kills: ${made.requests} made, ${counted.requests} counted, from ${low} to ${high} allowed`,
    )
  })
})

/** Stored counts as processes report theirs. */
function total(counts: readonly RefusalCounts[]): Refused {
  const {requests, limits} = addRefusals(counts)
  const plain = [...limits].map(([name, {requests, tokens}]) => [name, {requests, tokens: Number(tokens)}])
  return {requests, limits: Object.fromEntries(plain)}
}

/** The refusals of several processes together. */
function sum(reported: readonly Refused[]): Refused {
  return total(
    reported.map(({requests, limits}) => ({
      requests,
      byParent: 0,
      lastAtMs: 0,
      limits: new Map(
        Object.entries(limits).map(([name, {requests, tokens}]) => [name, {requests, tokens: BigInt(tokens)}]),
      ),
    })),
  )
}

import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {afterAll, afterEach, beforeAll, beforeEach, expect, inject, it} from 'vitest'
import {WINDOWS} from '../../../src/lib/core/window.js'
import {CapacityMeter} from '../../../src/lib/dynamo/capacity.js'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import {createTable, loadTableDefinition} from '../../../src/lib/dynamo/table-definition.js'
import type {ClosableTransport} from '../../../src/lib/dynamo/transport.js'
import {createTransport} from '../../../src/lib/dynamo/transports/create.js'
import {type Engine, startEngine} from '../../../src/lib/local/engines/engine.js'
import type {EngineName} from '../../../src/lib/local/engines/kind.js'
import {Buckets, visibleLimits} from '../../../src/lib/repository/buckets/buckets.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {Usage} from '../../../src/lib/repository/usage/usage.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, type TestTable} from '../../helpers/table.js'
import {type Done, Worker} from '../../limiter/fixtures/workers.js'

/** `ZAEL_TEST_SIZE=full` runs the sizes of the acceptance goals; otherwise enough to detect a lost or duplicated record. */
const SIZE =
  process.env.ZAEL_TEST_SIZE === 'full'
    ? {processes: 4, requests: 5000, buckets: 200, lanes: 16, batch: 2000, timeoutMs: 1_800_000}
    : {processes: 2, requests: 200, buckets: 20, lanes: 8, batch: 100, timeoutMs: 600_000}

const PROGRAM = fileURLToPath(new URL('../../aggregator/fixtures/aggregator-process.ts', import.meta.url))
const RESOURCE = 'gpt-4'

/** Shards of the first bucket. */
const SHARDS = 4

describeOnEngine('L4 from acquire to usage', {timeout: SIZE.timeoutMs}, () => {
  let engine: Engine
  let table: TestTable & {transport: ClosableTransport}
  const entities = Array.from({length: SIZE.buckets}, (_, index) => `user-${index}`)
  let workers: Worker[]
  let scene: Scene
  let home = ''
  let folder = ''
  let aggregator: ChildProcess | undefined

  beforeAll(async () => {
    // With its data on disk, like a local stack: in memory, dynoxide slows down with every record of the stream.
    home = await mkdtemp(join(tmpdir(), 'zael-test-'))
    const options = {engine: inject('engineName') as EngineName, dataDir: join(home, 'data')}
    engine = await startEngine(options, {readyTimeoutMs: 100_000})
    const connection = resolveConnection({endpointUrl: engine.endpoint}, {})
    table = {name: 'polled', transport: createTransport({connection, clock: Date.now}), capacity: new CapacityMeter()}
    await createTable(table.transport, await loadTableDefinition({tableName: table.name}))
    workers = Array.from({length: SIZE.processes}, () => new Worker())
  })
  afterAll(async () => {
    await Promise.all(workers.map(worker => worker.kill()))
    await table.transport.close()
    await engine.stop()
    await rm(home, {recursive: true, force: true})
  })
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: RESOURCE}, 'tpm=20/sec:200', 'rpd=1M/day')
  })
  afterEach(async () => {
    await kill()
    await rm(folder, {recursive: true, force: true})
  })

  function startAggregator(checkpoint: string, mode: 'once' | 'twice'): void {
    const args = [engine.endpoint, table.name, join(folder, checkpoint), mode, String(SIZE.batch)]
    aggregator = spawn(process.execPath, ['--import', 'tsx', PROGRAM, ...args], {
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  }

  async function kill(): Promise<void> {
    if (!aggregator || aggregator.exitCode !== null || aggregator.signalCode !== null) return
    const ended = once(aggregator, 'exit')
    aggregator.kill('SIGKILL')
    await ended
  }

  /** Creates the first bucket with its shards; then all processes acquire and correct. */
  async function acquire(): Promise<Done[]> {
    const limiter = scene.limiter({clock: Date.now})
    await limiter.acquire({entity: 'user-0', resource: RESOURCE, consume: {tpm: 1, rpd: 1}})
    await limiter.close()
    const tenant = {...scene.tenant, clock: Date.now}
    for (let count = 1; count < SHARDS; count *= 2) await splitBucket(tenant, 'user-0', RESOURCE, count)
    const assignment = {
      endpoint: engine.endpoint,
      stack: table.name,
      namespaceId: scene.namespace,
      resource: RESOURCE,
      entities,
      requests: SIZE.requests,
      lanes: SIZE.lanes,
      largest: 5,
      maxShards: SHARDS,
      configCacheMs: 60_000,
      corrects: 'some' as const,
    }
    await Promise.all(workers.map((worker, seed) => worker.prepare({...assignment, seed})))
    return Promise.all(workers.map(worker => worker.go()))
  }

  /** Consumed tokens by limit, from the counters of all shards of all buckets. */
  async function consumed(): Promise<Record<string, number>> {
    const sums: Record<string, number> = {}
    for (const entity of entities) {
      const bucket = await new Buckets(scene.tenant).find(entity, RESOURCE)
      for (const shard of bucket?.shards ?? []) {
        if (shard.kind !== 'bucket') continue
        for (const [name, limit] of visibleLimits(shard.record)) {
          sums[name] = (sums[name] ?? 0) + Number(limit.consumedMilli) / 1000
        }
      }
    }
    return sums
  }

  /** The same from the usage records of one window type, with the number of requests. */
  async function counted(window: (typeof WINDOWS)[number]): Promise<Record<string, number>> {
    const sums: Record<string, number> = {requests: 0}
    for (const entity of entities) {
      const {limits, totalEvents} = await new Usage(scene.tenant).summary({entity, resource: RESOURCE, window})
      sums.requests = (sums.requests ?? 0) + totalEvents
      for (const [name, {total}] of limits) sums[name] = (sums[name] ?? 0) + total
    }
    return sums
  }

  async function untilCounted(expected: Record<string, number>): Promise<void> {
    // Windows are written one after the other.
    for (const window of WINDOWS) while ((await counted(window)).rpd !== expected.rpd) await sleep(200)
  }

  it('S6 every window equals the counters, although the poller is killed three times', async () => {
    const working = acquire()
    for (let kills = 0; kills < 3; kills++) {
      startAggregator('checkpoint.json', 'once')
      await sleep(Math.min(SIZE.requests, 3000))
      await kill()
    }
    const outcomes = await working
    expect(outcomes.flatMap(({tally}) => tally.errors)).toEqual([])
    const tokens = await consumed()
    expect(tokens.rpd).toBeGreaterThan(SIZE.requests)
    // Every request consumes one rpd; a rolled-back request has returned it.
    const expected: Record<string, number> = {...tokens, requests: tokens.rpd ?? 0}

    startAggregator('checkpoint.json', 'once')
    await untilCounted(tokens)
    for (const window of WINDOWS) expect({window, ...(await counted(window))}).toEqual({window, ...expected})

    // From the beginning, twice: nothing is counted again. A last request shows that the end was reached.
    await kill()
    startAggregator('another-checkpoint.json', 'twice')
    const limiter = scene.limiter({clock: Date.now})
    await limiter.acquire({entity: 'user-1', resource: RESOURCE, consume: {tpm: 0, rpd: 1}})
    await limiter.close()
    const after = {...expected, rpd: (expected.rpd ?? 0) + 1, requests: (expected.requests ?? 0) + 1}
    await untilCounted(after)
    for (const window of WINDOWS) expect({window, ...(await counted(window))}).toEqual({window, ...after})
  })
})

import {describe, expect, it} from 'vitest'
import {createTable, loadTableDefinition} from '../../src/lib/dynamo/table-definition.js'
import type {NamespaceLimiter} from '../../src/lib/limiter/levels/namespace-limiter.js'
import {MemoryDynamo} from '../helpers/memory-table/memory-dynamo.js'
import {exploreOrders, plainProcess} from './fixtures/interleavings.js'

const LIMIT = 'tpm=100/min'
/** Long enough to be full. */
const RESTED_MS = 5 * 60_000

/** Several processes meet a bucket that has long been full: at one instant it gives exactly its capacity. */
describe('S1 a rested bucket', {timeout: 60_000}, () => {
  async function newStage() {
    let nowMs = 1_700_000_000_000
    const transport = new MemoryDynamo()
    await createTable(transport, await loadTableDefinition({tableName: 'memory', stream: false}))
    const stage = {table: {name: 'memory', transport}, namespace: 'ns', clock: () => nowMs, limit: LIMIT}
    const rest = (ms = RESTED_MS) => {
      nowMs += ms
    }
    return {stage, rest}
  }

  function learnToReadFirst({queues}: NamespaceLimiter): void {
    const {firstVisits} = queues.services
    while (!firstVisits.readFirst('gpt-4')) firstVisits.note('gpt-4', true)
  }

  /** Tokens that a bucket still gives at this instant, to a process with empty caches. */
  async function drain(stage: Parameters<typeof plainProcess>[0]): Promise<number> {
    const process = plainProcess(stage)
    let drained = 0
    for (const tokens of [50, 20, 10, 5, 5, 2, 2, 1, 1, 1, 1, 1, 1]) {
      while (await process.acquire(tokens)) drained += tokens
    }
    return drained
  }

  /** How the processes know the bucket. If they have learned to read first, they all read at the same time. */
  type Knowledge = 'nothing' | 'its state' | 'to read first' | 'to read first, and there is none'

  it.each<[string, number[][], Knowledge]>([
    ['two processes that do not know it', [[60], [60]], 'nothing'],
    [
      'two processes with two requests each',
      [
        [30, 30],
        [30, 30],
      ],
      'nothing',
    ],
    ['two processes that know it', [[60], [60]], 'its state'],
    ['three processes that do not know it', [[40], [40], [40]], 'nothing'],
    ['two processes that read it first', [[60], [60]], 'to read first'],
    ['three processes that read it first', [[40], [40], [40]], 'to read first'],
    ['three processes that read first, and there is none', [[40], [40], [40]], 'to read first, and there is none'],
  ])('gives exactly its capacity to %s, in every order of their calls', async (_, wishes, known) => {
    const runs = await exploreOrders(async schedule => {
      const {stage, rest} = await newStage()
      if (known !== 'to read first, and there is none') await plainProcess(stage).acquire(1)
      const processes = wishes.map(() => schedule.process(stage))
      if (known === 'its state') for (const process of processes) await schedule.run(process.acquire(1))
      if (known.startsWith('to read first')) for (const {limiter} of processes) learnToReadFirst(limiter)
      rest()
      const taken = await schedule.run(
        ...wishes.map(async (tokens, at) => {
          let sum = 0
          for (const each of tokens) if (await processes[at]?.acquire(each)) sum += each
          return sum
        }),
      )
      const total = taken.reduce((sum, each) => sum + each, 0) + (await drain(stage))
      expect({order: schedule.taken.map(({chosen}) => chosen).join(''), total}).toEqual({
        order: expect.any(String),
        total: 100,
      })
    })
    expect(runs).toBeGreaterThan(1)
  })

  it('gives no more to a process with an old state after another process refunds its tokens', async () => {
    const {stage, rest} = await newStage()
    const [one, other] = [plainProcess(stage), plainProcess(stage)]
    const queue = other.limiter.queues.at({entity: 'user-1', resource: 'gpt-4', shard: 0})
    await other.acquire(95)
    const incarnation = queue.bucket.state?.exists ? queue.bucket.state.seen.record.incarnation : undefined
    await one.acquire(1)
    rest(10_000)
    await queue.refund(new Map([['tpm', 95_000n]]), 1, {isBypassed: false, incarnation, periods: new Map()})
    expect(await one.acquire(4)).toBe(true)
    expect(4 + (await drain(stage))).toBe(100)
  })

  it('holds no more than its capacity when a process refills it without knowing of a refund', async () => {
    const {stage, rest} = await newStage()
    const [one, other] = [plainProcess(stage), plainProcess(stage)]
    const queue = other.limiter.queues.at({entity: 'user-1', resource: 'gpt-4', shard: 0})
    await other.acquire(60)
    const incarnation = queue.bucket.state?.exists ? queue.bucket.state.seen.record.incarnation : undefined
    await one.acquire(1)
    rest(18_000)
    await queue.refund(new Map([['tpm', 60_000n]]), 1, {isBypassed: false, incarnation, periods: new Map()})
    // More than the process knows as stored: the write includes the refill of 30.
    expect(await one.acquire(50)).toBe(true)
    // Half of the capacity is left, and 20 are refilled.
    rest(12_000)
    expect(await drain(stage)).toBe(70)
  })

  it.each([0, 1, 2, 3])('gives no more when a process ends after %d of its calls, in any order', async diesAfter => {
    await exploreOrders(async schedule => {
      const {stage, rest} = await newStage()
      await plainProcess(stage).acquire(1)
      rest()
      const [mortal, other] = [schedule.process(stage, {diesAfter}), schedule.process(stage)]
      const taken = await schedule.run(
        mortal.acquire(60).then(isAdmitted => (isAdmitted ? 60 : 0)),
        other.acquire(60).then(isAdmitted => (isAdmitted ? 60 : 0)),
      )
      const total = taken.reduce((sum, each) => sum + each, 0) + (await drain(stage))
      expect(total).toBeLessThanOrEqual(100)
    })
  })
})

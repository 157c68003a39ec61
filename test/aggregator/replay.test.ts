import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {DEFAULT_SETTINGS} from '../../src/lib/aggregator/environment.js'
import {replay} from '../../src/lib/aggregator/replay.js'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {Denied, Unavailable} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {encodeAudit} from '../../src/lib/schema/audit-record.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {play, usageIn, writes} from './fixtures/history.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {usageItems, usageOf} from './fixtures/stored-usage.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

const HOUR_MS = 3_600_000
// Long after the records, so that neither refill nor growth writes.
const clock = () => NOON_MS + 30 * 86_400_000
const SETTINGS = {...DEFAULT_SETTINGS, archives: true}

const again = (transport: Transport, name: string, Records: readonly StreamRecord[], settings = SETTINGS) =>
  replay(tableOver(transport, name, clock), {Records}, settings, () => {})
const count = (transport: Transport, name: string, Records: readonly StreamRecord[]) =>
  loggingAggregator({table: tableOver(transport, name, clock)}).handle({Records})

/** Writes of one token each to one bucket, at the given hours after noon. */
function consuming(namespace: string, hours: readonly number[]): StreamRecord[] {
  return hours.map((hour, at) => {
    const image = (milli: number) => bucketImage({namespace, tc: {tpm: milli}, rq: milli / 1000})
    return streamRecord(image(at * 1000), image(at * 1000 + 1000), {atMs: NOON_MS + hour * HOUR_MS, sequence: 10 + at})
  })
}

describeOnBoth('replayed records', {}, table => {
  let spaces = 0
  const newSpace = () => `replay${spaces++}`
  const tokens = async (namespace: string) =>
    Object.fromEntries(Object.entries(await usageOf(table, namespace)).map(([key, {tpm}]) => [key, tpm]))

  it('are counted once, however often they are replayed', async () => {
    const namespace = newSpace()
    const records = consuming(namespace, [0, 0, 1])
    const whole = {'hourly 2023-11-14T12:00:00Z': 2, 'hourly 2023-11-14T13:00:00Z': 1}
    for (const counted of [4, 0]) {
      const outcome = await again(table.transport, table.name, records)
      expect(outcome).toEqual({records: 3, changes: 3, counted, undecided: [], putBack: 0, uncounted: 0})
      expect(await tokens(namespace)).toEqual({
        ...whole,
        'daily 2023-11-14T00:00:00Z': 3,
        'monthly 2023-11-01T00:00:00Z': 3,
      })
    }
  })

  it('complete the day and the month although later hours were counted before them', async () => {
    const namespace = newSpace()
    const records = consuming(namespace, [0, 0, 1, 2, 2])
    await count(table.transport, table.name, records.slice(3))
    for (const counted of [4, 0]) {
      expect(await again(table.transport, table.name, records.slice(0, 3))).toMatchObject({counted, undecided: []})
      const {'daily 2023-11-14T00:00:00Z': day, 'monthly 2023-11-01T00:00:00Z': month} = await tokens(namespace)
      expect([day, month]).toEqual([5, 5])
    }
  })

  it('are undecided if later changes of the same hour were counted', async () => {
    for (const isCounted of [true, false]) {
      const namespace = newSpace()
      const records = consuming(namespace, [0, 0, 0])
      if (isCounted) await count(table.transport, table.name, records.slice(0, 2))
      await count(table.transport, table.name, records.slice(2))
      const before = await tokens(namespace)
      const {undecided, counted} = await again(table.transport, table.name, records.slice(0, 2))
      expect({undecided: undecided.map(({window, start}) => `${window} ${start}`), counted}).toEqual({
        undecided: ['hourly 2023-11-14T12:00:00Z', 'daily 2023-11-14T00:00:00Z', 'monthly 2023-11-01T00:00:00Z'],
        counted: 0,
      })
      expect(await tokens(namespace)).toEqual(before)
    }
  })

  it('do not change a day that differs from its hours for another reason', async () => {
    const namespace = newSpace()
    const records = consuming(namespace, [0, 0, 1, 2])
    // The day has counted the first two changes, their hour has not; the third is uncounted.
    const daily = loggingAggregator({
      table: tableOver(table.transport, table.name, clock),
      settings: {windows: ['daily']},
    })
    await daily.handle({Records: records.slice(0, 2)})
    await count(table.transport, table.name, records.slice(3))
    const {undecided} = await again(table.transport, table.name, records.slice(2, 3))
    expect(undecided.map(({window}) => window)).toEqual(['daily', 'monthly'])
    expect((await tokens(namespace))['daily 2023-11-14T00:00:00Z']).toBe(3)
  })

  it('do not complete a day twice after a lost response', async () => {
    const namespace = newSpace()
    const records = consuming(namespace, [0, 1, 2])
    await count(table.transport, table.name, records.slice(1))
    let writes = 0
    const lossy: Transport = {
      send: async (...args) => {
        const output = await table.transport.send(...args)
        if (args[0] === 'UpdateItem' && ++writes <= 4) throw new Unavailable('UpdateItem', true, undefined)
        return output
      },
    }
    expect((await again(lossy, table.name, records.slice(0, 1))).undecided).toEqual([])
    expect(await tokens(namespace)).toMatchObject({'daily 2023-11-14T00:00:00Z': 3, 'monthly 2023-11-01T00:00:00Z': 3})
  })

  it('restore expired audit events to the table, from where they are archived', async () => {
    const event = encodeAudit({
      ...{namespace: 'ns', entity: 'user-1', eventId: 'A', timestamp: '2023-08-16T11:12:13Z', action: 'limits_set'},
      ...{principal: undefined, resource: undefined, details: {}, ttlSeconds: 1},
    })
    const Records = [streamRecord(event, undefined, {byService: true})]
    expect(await again(table.transport, table.name, Records)).toMatchObject({putBack: 1})
    const Key = {PK: event.PK, SK: event.SK} as typeof event
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    expect(Item).toMatchObject({event_id: {S: 'A'}})
    expect((await again(table.transport, table.name, Records, {...SETTINGS, archives: false})).putBack).toBe(0)
  })

  it('do not count as counted if the table does not respond', async () => {
    const broken: Transport = {send: () => Promise.reject(new Denied('UpdateItem', undefined))}
    await expect(again(broken, table.name, consuming(newSpace(), [0]))).rejects.toThrow(Denied)
  })

  it('make every window exact or undecided, on an engine', async () => {
    await fc.assert(
      fc.asyncProperty(writes(16), segments, async (history, plan) => {
        const namespace = newSpace()
        const {records, usage} = play(history, namespace, NOON_MS)
        const {undecided} = await outage(table.transport, table.name, records, plan)
        const entities = ['user-0', 'user-1', 'user-2']
        const stored = (await Promise.all(entities.map(each => usageItems(table, namespace, each)))).flat()
        expect(decidedOf(usageIn(stored), undecided)).toEqual(decidedOf(usage, undecided))
      }),
      {numRuns: 5},
    )
  })
})

/** Parts of the stream: processed, dropped without a try, or dropped after some of the writes. */
interface Segment {
  readonly size: number
  readonly fate: 'processed' | 'given up' | 'given up halfway'
  readonly seed: number
}

const segments = fc.array(
  fc.record<Segment>({
    size: fc.integer({min: 1, max: 9}),
    fate: fc.constantFrom('processed', 'processed', 'given up', 'given up halfway'),
    seed: fc.nat(1000),
  }),
  {minLength: 1, maxLength: 6},
)

/** Plays a stream with an outage and replays the dropped records; the replay is interrupted and repeated. */
async function outage(
  transport: Transport,
  name: string,
  records: readonly StreamRecord[],
  plan: readonly Segment[],
): Promise<{undecided: Set<string>}> {
  const letters: StreamRecord[][] = []
  for (let at = 0, turn = 0; at < records.length; turn++) {
    const {size, fate, seed} = plan[turn % plan.length] as Segment
    const part = records.slice(at, at + size)
    at += size
    if (fate === 'processed') await count(transport, name, part)
    else letters.push(part)
    if (fate === 'given up halfway') await count(failingSome(transport, seed), name, part)
  }
  const undecided = new Set<string>()
  for (const [index, letter] of letters.entries()) {
    const outcomes: Awaited<ReturnType<typeof replay>>[] = []
    await again(failingFrom(transport, index % 4), name, letter).catch(() => {})
    outcomes.push(await again(transport, name, letter), await again(transport, name, letter))
    for (const {entity, window, start} of outcomes.flatMap(each => each.undecided)) {
      undecided.add(`${entity} ${window} ${start}`)
    }
  }
  return {undecided}
}

/** Denies about half of the writes. */
function failingSome(inner: Transport, seed: number): Transport {
  let state = seed
  return {
    send: (operation, input, options) => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
      if (operation === 'UpdateItem' && state % 4 < 2) return Promise.reject(new Denied(operation, undefined))
      return inner.send(operation, input, options)
    },
  }
}

/** Denies every write after this many. */
function failingFrom(inner: Transport, writes: number): Transport {
  let done = 0
  return {
    send: (operation, input, options) => {
      if (operation === 'UpdateItem' && done++ >= writes) return Promise.reject(new Denied(operation, undefined))
      return inner.send(operation, input, options)
    },
  }
}

const decidedOf = (usage: ReadonlyMap<string, object>, undecided: ReadonlySet<string>) =>
  new Map([...usage].filter(([key]) => !undecided.has(key)))

describe('after any outage', () => {
  it('makes every window exact or undecided (L4)', async () => {
    let decided = 0
    await fc.assert(
      fc.asyncProperty(writes(40), segments, async (history, plan) => {
        const {records, usage} = play(history, 'ns', NOON_MS)
        const table = new MemoryTable()
        const {undecided} = await outage(table, 'memory', records, plan)
        const exact = decidedOf(usage, undecided)
        expect(decidedOf(usageIn(table.items.values()), undecided)).toEqual(exact)
        decided += exact.size
      }),
      {numRuns: 40},
    )
    expect(decided).toBeGreaterThan(0)
  })
})

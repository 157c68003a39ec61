import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import type {StreamRecord} from '../../../src/lib/aggregator/stream-event.js'
import {RollupSchedule, WINDOWS, type Window} from '../../../src/lib/core/window.js'
import type {RecordPage} from '../../../src/lib/repository/table/query.js'
import {Usage} from '../../../src/lib/repository/usage/usage.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {decodeUsage, type UsageRecord} from '../../../src/lib/schema/usage-record.js'
import {runs} from '../../helpers/runs.js'
import {play, type Write, writes} from '../fixtures/history.js'
import {
  ALWAYS,
  agendaOf,
  aggregatorOn,
  DAY_MS,
  figuresOf,
  HOUR_MS,
  inNamespace,
  memoryTable,
  store,
} from './rolled-table.js'

/** Two hours before a day, a month and a year start. */
const START_MS = Date.UTC(2023, 11, 31, 22)

/** A stream over some days, with gaps, and its delivery. */
const histories = fc
  .tuple(
    writes(25),
    fc.array(fc.constantFrom(0, 0, 0, HOUR_MS, 5 * HOUR_MS, DAY_MS, 40 * DAY_MS), {minLength: 25, maxLength: 25}),
  )
  .map(([history, gaps]): Write[] => history.map((write, at) => ({...write, laterMs: write.laterMs + (gaps[at] ?? 0)})))

const deliveries = fc.array(
  fc.record({
    size: fc.integer({min: 1, max: 6}),
    /** After the last record of the batch. */
    lagMs: fc.constantFrom(0, 2000, 70_000, 6 * 60_000, 3 * HOUR_MS),
    twice: fc.boolean(),
    restart: fc.boolean(),
    ticks: fc.integer({min: 0, max: 2}),
  }),
  {minLength: 1, maxLength: 6},
)

/** A rollup announced for a time that never comes. */
const NEVER = new RollupSchedule({daily: ['2999-01-01T00:00:00Z'], monthly: ['2999-01-01T00:00:00Z']})

/** The same stream into two tables: one rolls up, one counts every window with every batch. */
async function twins() {
  const world = {nowMs: START_MS}
  const clock = () => world.nowMs
  const [rolled, direct] = [await memoryTable(clock), await memoryTable(clock)]
  await store(rolled.transport, rolled.name, ALWAYS)
  await store(direct.transport, direct.name, NEVER)
  const start = () => ({
    rolled: aggregatorOn(rolled.transport, rolled.name, clock),
    direct: aggregatorOn(direct.transport, direct.name, clock),
  })
  return {world, rolled, direct, start}
}

/** Whether a zero counter exists depends on the grouping of writes. */
const withoutZeros = (record: UsageRecord): UsageRecord => ({
  ...record,
  tokens: new Map([...record.tokens].filter(([, tokens]) => tokens !== 0)),
})

/** All reads that a reader can make, by page or as a whole. */
async function readings(table: {transport: Parameters<typeof inNamespace>[0]; name: string}, selection: object) {
  const usage = new Usage(inNamespace(table.transport, table.name, 'ns'), {pageSize: 7})
  const pages = async (read: (cursor?: string) => Promise<RecordPage<UsageRecord>>) => {
    const records: UsageRecord[] = []
    let cursor: string | undefined
    do {
      const page = await read(cursor)
      records.push(...page.records.map(withoutZeros))
      cursor = page.next
    } while (cursor !== undefined)
    return records
  }
  const entity = 'user-1'
  const resource = 'gpt-4'
  const whole = async (subject: object) => {
    const records: UsageRecord[] = []
    for await (const record of usage.records({...subject, ...selection})) records.push(withoutZeros(record))
    return records
  }
  return {
    entity: await pages(cursor => usage.ofEntity(entity, {...selection, cursor, limit: 2})),
    both: await pages(cursor => usage.ofEntity(entity, {...selection, resource, cursor, limit: 1})),
    resource: await pages(cursor => usage.ofResource(resource, {...selection, cursor, limit: 3})),
    wholeResource: await whole({resource}),
    wholeEntity: await whole({entity}),
  }
}

describe('usage that is rolled up', () => {
  const selections = (nowMs: number): object[] => [
    ...([undefined, ...WINDOWS] as (Window | undefined)[]).map(window => ({window})),
    {window: 'daily', sinceMs: nowMs - 30 * HOUR_MS, untilMs: nowMs - 5 * HOUR_MS},
    {window: 'monthly', sinceMs: nowMs - 30 * HOUR_MS, untilMs: nowMs + 1},
    {window: 'daily', untilMs: START_MS + 3 * HOUR_MS},
  ]

  it('shows the figures of usage that is counted with every batch, at any instant', async () => {
    await fc.assert(
      fc.asyncProperty(histories, deliveries, async (history, plan) => {
        const {records} = play(history, 'ns', START_MS)
        const {world, rolled, direct, start} = await twins()
        let aggregators = start()
        for (let at = 0, turn = 0; at < records.length; turn++) {
          const {size, lagMs, twice, restart, ticks} = plan[turn % plan.length] as (typeof plan)[number]
          const batch: StreamRecord[] = records.slice(at, at + size)
          at += size
          const lastMs = Math.max(...batch.map(({dynamodb}) => dynamodb.ApproximateCreationDateTime * 1000))
          world.nowMs = Math.max(world.nowMs, lastMs) + lagMs
          if (restart) aggregators = start()
          for (let time = 0; time < (twice ? 2 : 1); time++) {
            const results = await Promise.all([
              aggregators.rolled.handle({Records: batch}),
              aggregators.direct.handle({Records: batch}),
            ])
            for (const {failures, counts} of results)
              expect({failures, errors: counts.errors}).toEqual({failures: [], errors: 0})
          }
          for (let tick = 0; tick < ticks; tick++) {
            world.nowMs += 61_000
            await aggregators.rolled.tick()
          }
          if (turn % 3 === 0 || at >= records.length) {
            for (const selection of selections(world.nowMs))
              expect(await readings(rolled, selection)).toEqual(await readings(direct, selection))
          }
        }
        // After the end of all windows, the table has the records that other clients look for.
        world.nowMs += 45 * DAY_MS
        for (let tick = 0; tick < 20; tick++) {
          world.nowMs += 61_000
          await aggregators.rolled.tick()
        }
        expect(aggregators.rolled.lines.filter(({level}) => level === 'error')).toEqual([])
        expect(await agendaOf(aggregators.rolled.table, 'ns')).toEqual([])
        const usageIn = ({transport, name}: typeof rolled): Item[] =>
          transport
            .table(name)
            .items.all()
            // Windows that expired before a process ran are not rolled up.
            .filter(item => (decodeUsage(item)?.ttlSeconds ?? 0) * 1000 > world.nowMs)
            .map(figuresOf)
            .map(item =>
              Object.fromEntries(Object.entries(item).filter(([, value]) => !('N' in value && value.N === '0'))),
            )
        expect(usageIn(rolled)).toEqual(usageIn(direct))
      }),
      {numRuns: runs(8)},
    )
  })
})

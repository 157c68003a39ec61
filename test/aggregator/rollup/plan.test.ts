import {randomUUID} from 'node:crypto'
import {beforeEach, describe, expect, it} from 'vitest'
import {DEFAULT_SETTINGS} from '../../../src/lib/aggregator/environment.js'
import {countedWindows, RollupPlan, rollsUp, rollUpFromStart} from '../../../src/lib/aggregator/rollup/plan.js'
import {RollupSchedule, WINDOWS, type Window} from '../../../src/lib/core/window.js'
import {readRollups} from '../../../src/lib/repository/usage/sum.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {decodeRollups, encodeRollups} from '../../../src/lib/schema/registry-records.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {Interceptor} from '../../repository/namespace-table.js'
import {usageOf} from '../fixtures/stored-usage.js'
import {bucketImage, streamRecord, tableOver} from '../fixtures/stream.js'
import {aggregatorOn, DAY_MS, HOUR_MS} from './rolled-table.js'

describe('rolled-up windows', () => {
  it('are decided by the start of a window, and may end and start again', () => {
    const schedule = new RollupSchedule({
      daily: ['2026-01-10T12:00:00Z', '2026-01-20T00:00:00Z', '2026-02-01T01:00:00Z'],
      monthly: ['2026-01-10T12:00:00Z'],
    })
    const days = ['2026-01-10', '2026-01-11', '2026-01-19', '2026-01-20', '2026-02-01', '2026-02-02']
    const rolled = days.filter(day => schedule.isRolled('daily', `${day}T00:00:00Z`))
    expect(rolled).toEqual(['2026-01-11', '2026-01-19', '2026-02-02'])
    expect(schedule.isRolled('monthly', '2026-01-01T00:00:00Z')).toBe(false)
    expect(schedule.isRolled('monthly', '2026-02-01T00:00:00Z')).toBe(true)
    expect(schedule.isRolled('hourly', '2026-02-02T00:00:00Z')).toBe(false)
    expect(decodeRollups(encodeRollups(schedule))).toEqual(schedule)
    expect(decodeRollups(undefined)).toEqual(new RollupSchedule())
  })

  it.each([
    [WINDOWS, 90, true, true],
    [WINDOWS, 0, true, true],
    [WINDOWS, 33, true, true],
    [WINDOWS, 32, true, false],
    [WINDOWS, 2, true, false],
    [WINDOWS, 1, false, false],
    [['hourly', 'daily'], 90, true, false],
    [['daily', 'monthly'], 90, false, false],
    [['hourly', 'monthly'], 90, false, false],
    [['hourly'], 90, false, false],
  ] as const)('%j kept for %i days: days %s, months %s', (windows, retentionDays, daily, monthly) => {
    const settings = {windows, retentionDays}
    expect([rollsUp('daily', settings), rollsUp('monthly', settings)]).toEqual([daily, monthly])
  })

  it('are counted in hours as long as any rollup needs them, whatever the settings', () => {
    const schedule = new RollupSchedule({daily: ['2026-01-10T12:00:00Z'], monthly: ['2026-01-10T12:00:00Z']})
    const at = (windows: readonly Window[], day: string) =>
      countedWindows(schedule, windows, Date.parse(`${day}T15:00:00Z`)).join(' ')
    expect(at(WINDOWS, '2026-01-10')).toBe('hourly daily monthly')
    expect(at(WINDOWS, '2026-01-11')).toBe('hourly monthly')
    expect(at(WINDOWS, '2026-02-01')).toBe('hourly')
    expect(at(['daily'], '2026-01-10')).toBe('daily')
    expect(at(['daily'], '2026-02-01')).toBe('hourly')
  })
})

describeOnBoth('the announcement of rollups', {}, table => {
  const START_MS = Date.UTC(2026, 0, 31, 22, 30)
  let nowMs: number

  beforeEach(async () => {
    nowMs = START_MS
    const {PK, SK} = keys.rollups()
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK: {S: PK}, SK: {S: SK}}})
  })

  const clock = () => nowMs
  const plan = (windows: readonly Window[] = WINDOWS, transport = new Interceptor(table.transport)) =>
    new RollupPlan(tableOver(transport, table.name, clock), {...DEFAULT_SETTINGS, windows})
  const switches = async () => (await readRollups(tableOver(table.transport, table.name, clock))).switches

  it('gives an hour of notice, once, however many processes start at once', async () => {
    const schedules = await Promise.all(Array.from({length: 5}, () => plan().schedule()))
    const announced = {daily: ['2026-01-31T23:30:00Z'], monthly: ['2026-01-31T23:30:00Z']}
    for (const schedule of schedules) expect(schedule.switches).toEqual(announced)
    nowMs += 10 * DAY_MS
    expect((await plan().schedule()).switches).toEqual(announced)
  })

  it('is found although the response was lost', async () => {
    const wire = new Interceptor(table.transport)
    wire.after = operation => {
      if (operation === 'UpdateItem' && wire.count('UpdateItem') === 1)
        throw Object.assign(new Error('lost'), {name: 'TimeoutError'})
    }
    await plan(WINDOWS, wire)
      .schedule()
      .catch(() => {})
    expect((await plan().schedule()).switches.daily).toEqual(['2026-01-31T23:30:00Z'])
  })

  it('is read once in ten minutes', async () => {
    const wire = new Interceptor(table.transport)
    const own = plan(WINDOWS, wire)
    await own.schedule()
    const calls = wire.calls.length
    for (let minute = 0; minute < 9; minute++) {
      nowMs += 60_000
      await own.schedule()
    }
    expect(wire.calls.length).toBe(calls)
    nowMs += 60_000
    await own.schedule()
    expect(wire.calls.length).toBe(calls + 1)
  })

  it('changes with the settings, an hour later, and not while a change is announced', async () => {
    await plan().schedule()
    await plan(['hourly']).schedule()
    expect((await switches()).daily).toHaveLength(1)
    nowMs += 2 * DAY_MS
    await plan(['hourly']).schedule()
    await plan().schedule()
    const ended = '2026-02-02T23:30:00Z'
    expect(await switches()).toEqual({
      daily: ['2026-01-31T23:30:00Z', ended],
      monthly: ['2026-01-31T23:30:00Z', ended],
    })
    nowMs += 2 * HOUR_MS
    expect((await plan().schedule()).isRolled('daily', '2026-02-05T00:00:00Z')).toBe(true)
    expect((await plan().schedule()).isRolled('daily', '2026-02-03T00:00:00Z')).toBe(false)
  })

  it('L4 rolls up the running day and month of a new table', async () => {
    const namespace = `ns${randomUUID().slice(0, 8)}`
    await rollUpFromStart(tableOver(table.transport, table.name, clock), DEFAULT_SETTINGS)
    const {handle, tick} = aggregatorOn(table.transport, table.name, clock)
    const image = (tpm: number) => bucketImage({namespace, tc: {tpm: tpm * 1000}, rq: tpm})
    await handle({Records: [streamRecord(undefined, image(1), {atMs: nowMs})]})
    expect(await usageOf(table, namespace)).toEqual({'hourly 2026-01-31T22:00:00Z': {tpm: 1, events: 1}})
    nowMs += HOUR_MS
    await handle({Records: [streamRecord(image(1), image(3), {atMs: nowMs})]})
    nowMs += 2 * HOUR_MS
    await tick()
    expect(await usageOf(table, namespace)).toEqual({
      'hourly 2026-01-31T22:00:00Z': {tpm: 1, events: 1},
      'hourly 2026-01-31T23:00:00Z': {tpm: 2, events: 2},
      'daily 2026-01-31T00:00:00Z': {tpm: 3, events: 3},
      'monthly 2026-01-01T00:00:00Z': {tpm: 3, events: 3},
    })
  })

  it.each([
    [DEFAULT_SETTINGS.windows, 2, {daily: ['2026-01-01T00:00:00Z'], monthly: []}],
    [['daily', 'monthly'], 90, {daily: [], monthly: []}],
  ] as const)('on a new table follows the settings: %j kept for %i days', async (windows, retentionDays, expected) => {
    await rollUpFromStart(tableOver(table.transport, table.name, clock), {windows, retentionDays})
    expect(await switches()).toEqual(expected)
  })

  it('L4 keeps what another process has announced', async () => {
    const announced = (await plan().schedule()).switches
    await rollUpFromStart(tableOver(table.transport, table.name, clock), DEFAULT_SETTINGS)
    expect(await switches()).toEqual(announced)
  })

  it('leaves the running day and month as they are counted', async () => {
    const namespace = `ns${randomUUID().slice(0, 8)}`
    const {handle} = aggregatorOn(table.transport, table.name, clock)
    const image = (tpm: number) => bucketImage({namespace, tc: {tpm: tpm * 1000}, rq: tpm})
    await handle({Records: [streamRecord(undefined, image(1), {atMs: nowMs})]})
    nowMs = Date.UTC(2026, 1, 1, 0, 0, 30)
    await handle({Records: [streamRecord(image(1), image(3), {atMs: START_MS + HOUR_MS})]})
    await handle({Records: [streamRecord(image(3), image(7), {atMs: nowMs})]})
    expect(await usageOf(table, namespace)).toEqual({
      'hourly 2026-01-31T22:00:00Z': {tpm: 1, events: 1},
      'hourly 2026-01-31T23:00:00Z': {tpm: 2, events: 2},
      'daily 2026-01-31T00:00:00Z': {tpm: 3, events: 3},
      'monthly 2026-01-01T00:00:00Z': {tpm: 3, events: 3},
      'hourly 2026-02-01T00:00:00Z': {tpm: 4, events: 4},
    })
  })
})

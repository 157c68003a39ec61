import {describe, expect, it} from 'vitest'
import {formatWindows} from '../../src/lib/core/calendar/stored-schedule.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {Verdicts} from './oracles/verdicts.js'
import {QuotaLedger} from './quotas/ledger.js'
import type {TableWrite} from './world/table-writes.js'

const START_MS = Date.parse('2024-02-28T00:15:00Z')
const MINUTE_MS = 60_000
const BEFORE_MS = START_MS - 10 * 3_600_000

/** One of two shards of a session quota: 24 tokens per five hours, halved in the first half of every hour. */
function shard(number: number, fields: {tokens: number; atMs: number; ws: number; wa: number; taken?: number}): Item {
  return {
    PK: s(`ns/BUCKET#u0#gpt-4#${number}`),
    rf: n(fields.atMs),
    shard_count: n(2),
    sched_tz: s('UTC'),
    sched: s(formatWindows([{cron: '0-29 * * * *', scalePerMille: 500}])),
    b_q_cp: n(24_000),
    b_q_ra: n(0),
    b_q_rp: n(1000),
    b_q_rsa: n(18_000),
    b_q_tk: n(fields.tokens),
    b_q_tc: n(fields.taken ?? 0),
    b_q_ws: n(fields.ws),
    b_q_wa: n(fields.wa),
  }
}

/** One of two shards of a quota of 24 tokens per day. */
function daily(number: number, atMs: number, tokens: number, consumed: number): Item {
  const {b_q_rsa: _, b_q_ws: __, b_q_wa: ___, sched: ____, ...item} = shard(number, {tokens, atMs, ws: 0, wa: 0})
  return {...item, b_q_tc: n(consumed), rsched: s('1m0h0')}
}

/** Shard 0 opens a session at a quarter past the hour and announces it; shard 1 enters it later. */
function found(entersAfterMs: number, tokens: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const change = (atMs: number, before: Item, after: Item): TableWrite => ({
    atMs,
    writer: {kind: 'limiter', process: 0},
    changes: [{table: 'sim', sequence: 0, atMs, before, after}],
    shards: [],
  })
  const old = {tokens: 0, atMs: BEFORE_MS, ws: BEFORE_MS, wa: BEFORE_MS}
  const [opened, atMs] = [{tokens: 6000, atMs: START_MS, ws: START_MS, wa: START_MS}, START_MS + entersAfterMs]
  ledger.observe(change(START_MS, shard(0, old), shard(0, opened)))
  const [announced, entered] = [
    {...old, ws: START_MS},
    {...opened, tokens, atMs},
  ]
  ledger.observe(change(atMs, shard(1, announced), shard(1, entered)))
  return verdicts.violations.map(({oracle}) => oracle)
}

/** The next session is announced to a shard without a window mark, `afterMs` after its last one began. */
function foundAfterAnnouncement(afterMs: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const unmarked = (tokens: number, ws: number): Item => {
    const {b_q_wa: _, ...item} = shard(0, {tokens, atMs: START_MS + 1, ws, wa: 0})
    return item
  }
  const before = shard(0, {tokens: 0, atMs: BEFORE_MS, ws: BEFORE_MS, wa: BEFORE_MS})
  const [held, announced] = [unmarked(6000, START_MS), unmarked(6000, START_MS + afterMs)]
  for (const [old, now, atMs] of [
    [before, held, START_MS + 1] as const,
    [held, announced, START_MS + afterMs] as const,
  ])
    ledger.observe({
      atMs,
      writer: {kind: 'limiter', process: 0},
      changes: [{table: 'sim', sequence: 0, atMs, before: old, after: now}],
      shards: [],
    })
  return verdicts.violations.map(({oracle}) => oracle)
}

/** Another client makes a daily quota hourly and daily again, with 2 tokens taken; then `milli` is refunded. */
function foundAfterReturn(milli: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const bucket = (resets: string, consumed: number): Item => {
    const {b_q_rsa: _, b_q_ws: __, b_q_wa: ___, ...item} = shard(0, {tokens: 0, atMs: START_MS, ws: 0, wa: 0})
    const balance = {b_q_tk: n(12_000 - consumed), b_q_tc: n(consumed)}
    return {...item, ...balance, shard_count: n(1), rsched: s(resets)}
  }
  const [daily, hourly] = ['1m0h0', '1m0']
  const states = [bucket(daily, 0), bucket(daily, 2000), bucket(hourly, 2000), bucket(daily, 2000)]
  for (const [index, after] of [...states, bucket(daily, 2000 - milli)].entries()) {
    const before = states[index - 1]
    const writer = {kind: index === 2 ? ('python' as const) : ('limiter' as const), process: 0}
    const change = {table: 'sim', sequence: 0, atMs: START_MS, before, after}
    ledger.observe({atMs: START_MS, writer, changes: [change], shards: []})
  }
  return verdicts.violations.map(({oracle}) => oracle)
}

/** A session is topped up by 8 tokens and ended by a reset; then one starts with `tokens`. */
function foundAfterReset(tokens: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const write = (event: TableWrite['writer']['event'], before: Item, after: Item, atMs: number) => {
    const kind = event ? ('operator' as const) : ('limiter' as const)
    const changes = [{table: 'sim', sequence: 0, atMs, before, after}]
    ledger.observe({atMs, writer: {kind, process: 0, ...(event && {event})}, changes, shards: []})
  }
  const only = (item: Item, topUp: number): Item => ({...item, shard_count: n(1), b_q_tu: n(topUp)})
  const [old, now] = [BEFORE_MS, START_MS + 5 * MINUTE_MS]
  const ended = now - 5 * 3_600_000
  const before = only(shard(0, {tokens: 0, atMs: old, ws: old, wa: old}), 0)
  const bought = only(shard(0, {tokens: 20_000, atMs: START_MS, ws: START_MS, wa: START_MS}), 8000)
  const reset = only(shard(0, {tokens: 20_000, atMs: now, ws: ended, wa: ended}), 8000)
  const opened = only(shard(0, {tokens, atMs: now + 1, ws: now + 1, wa: now + 1}), 0)
  write('top-up', before, bought, START_MS)
  write('reset', bought, reset, now)
  write(undefined, reset, opened, now + 1)
  return verdicts.violations.map(({oracle}) => oracle)
}

/** Another client turns a session announced to shard 1 into a daily quota of 6; then that shard gets some tokens. */
function foundAfterKindChanged(ws: number, tokens: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const announced = shard(1, {tokens: 1000, atMs: START_MS, ws, wa: BEFORE_MS})
  const {b_q_rsa: _, sched: __, ...plain} = announced
  const synced = {...plain, b_q_cp: n(6000), rsched: s('1m0h0')}
  const steps = [
    ['limiter', undefined, announced],
    ['python', announced, synced],
    ['limiter', synced, {...synced, b_q_tk: n(tokens)}],
  ] as const
  for (const [kind, before, after] of steps)
    ledger.observe({
      atMs: START_MS + 1,
      writer: {kind, process: 0},
      changes: [{table: 'sim', sequence: 0, atMs: START_MS + 1, before, after}],
      shards: [],
    })
  return verdicts.violations.map(({oracle}) => oracle)
}

/** Another client changes an ended five-hour session to ten hours; later a shard enters a new one. */
function foundAfterLengthened(afterMs: number, beganAfterMs = afterMs, aheadMs = 0): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => aheadMs, behindMs: () => 0, lagMs: () => 0})
  const changedAtMs = START_MS - MINUTE_MS
  const old = BEFORE_MS + 4 * 3_600_000
  const held = {...shard(0, {tokens: 0, atMs: old, ws: old, wa: old}), shard_count: n(1)}
  const synced = {...held, b_q_rsa: n(36_000)}
  const atMs = changedAtMs + afterMs
  const beganMs = changedAtMs + beganAfterMs
  const opened = {...synced, rf: n(atMs), b_q_ws: n(beganMs), b_q_wa: n(beganMs), b_q_tk: n(24_000)}
  const steps = [
    ['limiter', old, undefined, held],
    ['python', changedAtMs, held, synced],
    ['limiter', atMs, synced, opened],
  ] as const
  for (const [kind, stepMs, before, after] of steps)
    ledger.observe({
      atMs: stepMs,
      writer: {kind, process: 0},
      changes: [{table: 'sim', sequence: 0, atMs: stepMs, before, after}],
      shards: [],
    })
  return verdicts.violations.map(({oracle}) => oracle)
}

/** A shard in debt gives half of it to a new shard, which enters the next day; then the first grants more. */
function foundAfterDebt(more: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const nextMs = START_MS + 86_400_000
  const write = (atMs: number, ...changes: readonly (readonly [Item | undefined, Item])[]) =>
    ledger.observe({
      atMs,
      writer: {kind: 'limiter', process: 0},
      changes: changes.map(([before, after]) => ({table: 'sim', sequence: 0, atMs, before, after})),
      shards: [],
    })
  const whole = {...daily(0, START_MS, 0, 24_000), shard_count: n(1)}
  const inDebt = {...daily(0, START_MS, -4000, 28_000), shard_count: n(1)}
  write(START_MS, [undefined, whole])
  write(START_MS, [whole, inDebt])
  const [half, other] = [daily(0, START_MS, -2000, 28_000), daily(1, START_MS, -2000, 0)]
  write(START_MS, [inDebt, half], [undefined, other])
  write(nextMs, [other, daily(1, nextMs, 12_000, 0)])
  write(START_MS, [half, daily(0, START_MS, -2000 + more, 28_000)])
  return verdicts.violations.map(({oracle}) => oracle)
}

/**
 * Another client announces a second shard to shard 0, an operator resets the first twice, and the client creates the
 * second.
 */
function foundAfterResetOfOne(tokens: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const write = (writer: TableWrite['writer'], before: Item | undefined, after: Item) =>
    ledger.observe({
      atMs: START_MS,
      writer,
      changes: [{table: 'sim', sequence: 0, atMs: START_MS, before, after}],
      shards: [],
    })
  const [python, operator] = [
    {kind: 'python', process: 9} as const,
    {kind: 'operator', process: 8, event: 'reset'} as const,
  ]
  const announced = daily(0, START_MS, 21_000, 3000)
  const alone = {...announced, shard_count: n(1)}
  write({kind: 'limiter', process: 0}, undefined, alone)
  write(python, alone, announced)
  const half = daily(0, START_MS, 12_000, 3000)
  write(operator, announced, half)
  write(operator, half, half)
  write(python, undefined, daily(1, START_MS, tokens, 0))
  return verdicts.violations.map(({oracle}) => oracle)
}

/** A clock that is ahead moves shard 1, which gave tokens to shard 0, to the next day; an operator moves it back. */
function foundAfterSetBack(event: 'reset' | 'top-up'): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 5000, behindMs: () => 0, lagMs: () => 0})
  const nextMs = Date.parse('2024-02-29T00:00:00Z')
  type Images = readonly [Item | undefined, Item]
  const write = (writer: TableWrite['writer'], atMs: number, ...images: readonly Images[]) => {
    const changes = images.map(([before, after]) => ({table: 'sim', sequence: 0, atMs, before, after}))
    ledger.observe({atMs, writer, changes, shards: []})
  }
  const limiter = {kind: 'limiter', process: 0} as const
  const [first, second] = [daily(0, START_MS, 12_000, 0), daily(1, START_MS, 12_000, 0)]
  write(limiter, START_MS, [undefined, first], [undefined, second])
  const poorer = daily(1, START_MS, 7000, 0)
  write(limiter, START_MS, [first, daily(0, START_MS, 17_000, 0)], [second, poorer])
  const early = daily(1, nextMs, 1000, 11_000)
  write(limiter, nextMs - 4000, [poorer, early])
  write({kind: 'operator', process: 0, event}, nextMs - 2000, [early, daily(1, nextMs - 2000, 12_000, 11_000)])
  return verdicts.violations.map(({oracle}) => oracle)
}

/**
 * Shard 1 of two has spent its part of the next day; shard 3, another client's copy of shard 0, is also granted that
 * day.
 */
function foundAfterCopy(writer: 'python' | 'operator', tokens: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const nextMs = START_MS + 86_400_000
  const daily = (number: number, atMs: number, tokens: number, consumed: number, count: number): Item => {
    const {b_q_rsa: _, b_q_ws: __, b_q_wa: ___, sched: ____, ...item} = shard(number, {tokens, atMs, ws: 0, wa: 0})
    return {...item, b_q_tc: n(consumed), b_q_gc: n(count), shard_count: n(count), rsched: s('1m0h0')}
  }
  const write = (kind: TableWrite['writer']['kind'], atMs: number, before: Item | undefined, after: Item) => {
    const changes = [{table: 'sim', sequence: 0, atMs, before, after}]
    ledger.observe({atMs, writer: {kind, process: 0}, changes, shards: []})
  }
  write('limiter', START_MS, undefined, daily(0, START_MS, 0, 12_000, 2))
  write('limiter', nextMs, undefined, daily(1, nextMs, 0, 12_000, 2))
  const copy = daily(3, START_MS, 0, 0, 4)
  write(writer, nextMs, undefined, copy)
  write('limiter', nextMs, copy, daily(3, nextMs, tokens, 0, 4))
  write('limiter', nextMs, daily(0, START_MS, 0, 12_000, 2), daily(0, nextMs, 6000, 12_000, 4))
  write('limiter', nextMs, undefined, daily(2, nextMs, 6000, 0, 4))
  return verdicts.violations.map(({oracle}) => oracle)
}

/**
 * A daily quota of 6 is charged shortly before its reset by a process with 12 ms of travel time; the next day pays for
 * it.
 */
function foundAfterLateCharge(beforeMs: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 12})
  const resetMs = Date.parse('2024-02-29T00:00:00Z')
  const {
    b_q_rsa: _,
    sched: __,
    shard_count: ___,
    b_q_gc: ____,
    ...plain
  } = shard(0, {tokens: 6000, atMs: resetMs - MINUTE_MS, ws: 0, wa: 0})
  const daily = {...plain, shard_count: n(1), b_q_cp: n(6000), b_q_tc: n(0), rsched: s('1m0h0')}
  const charged = {...daily, b_q_tk: n(3000), b_q_tc: n(3000)}
  const steps = [
    [resetMs - MINUTE_MS, undefined, daily],
    [resetMs - beforeMs, daily, charged],
    [resetMs + 5, charged, {...charged, b_q_tk: n(3000), rf: n(resetMs + 1)}],
  ] as const
  for (const [atMs, before, after] of steps)
    ledger.observe({
      atMs,
      writer: {kind: 'limiter', process: 0},
      changes: [{table: 'sim', sequence: 0, atMs, before, after}],
      shards: [],
    })
  return verdicts.violations.map(({oracle}) => oracle)
}

/** A daily quota is granted to one shard, which is split; then the donor has this mark. */
function foundAfterSplit(donorMark: number, kind: TableWrite['writer']['kind']): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const marked = (number: number, count: number, tokens: number, mark: number): Item => ({
    ...daily(number, START_MS, tokens, 0),
    ...{shard_count: n(count), b_q_gc: n(mark)},
  })
  const whole = marked(0, 1, 24_000, 1)
  const change = (before: Item | undefined, after: Item) => ({table: 'sim', sequence: 0, atMs: START_MS, before, after})
  const halves = [change(whole, marked(0, 2, 12_000, donorMark)), change(undefined, marked(1, 2, 12_000, 2))]
  for (const changes of [[change(undefined, whole)], halves])
    ledger.observe({atMs: START_MS, writer: {kind, process: 0}, changes, shards: []})
  return verdicts.violations.map(({oracle}) => oracle)
}

/**
 * As in seed 14000610: one hour after shards 1 and 3 of four, shards 0 and 2 began a session of their own. Of the first
 * session, 7 tokens were granted on shard 1. Shard 3 begins another one with 6.
 */
function foundAfterChain(beginsAfterMs: number): string[] {
  const verdicts = new Verdicts(() => 0)
  const ledger = new QuotaLedger(verdicts, {aheadMs: () => 0, behindMs: () => 0, lagMs: () => 0})
  const [otherMs, lastMs] = [START_MS + 3_600_000, START_MS + beginsAfterMs]
  const write = (number: number, atMs: number, granted: number) => {
    const {sched: _, ...item} = shard(number, {tokens: granted, atMs, ws: atMs, wa: atMs})
    const changes = [{table: 'sim', sequence: 0, atMs, before: undefined, after: {...item, shard_count: n(4)}}]
    ledger.observe({atMs, writer: {kind: 'limiter', process: 0}, changes, shards: []})
  }
  write(1, START_MS, 7000)
  write(3, lastMs, 6000)
  write(2, otherMs, 6000)
  write(0, otherMs, 6000)
  return verdicts.violations.map(({oracle}) => oracle)
}

describe('the quota ledger', () => {
  it('S1 adds up sessions that are open at the same moment, not all that overlap a third one', () => {
    expect(foundAfterChain(5 * 3_600_000)).toEqual([])
    expect(foundAfterChain(5 * 3_600_000 - 1)).toEqual(['S1-quota'])
  })

  it('S9 finds shards that may hold more than the allowance, unless another client has split them', () => {
    expect(foundAfterSplit(2, 'limiter')).toEqual([])
    expect(foundAfterSplit(1, 'limiter')).toEqual(['S9-ceilings'])
    expect(foundAfterSplit(1, 'python')).toEqual([])
  })

  it('S2: lets a day pay only for a charge that may not have come before it', () => {
    expect(foundAfterLateCharge(1)).toEqual([])
    expect(foundAfterLateCharge(13)).toEqual(['S2-short'])
  })

  it('allows a shard that enters a session late its share of the capacity in force then', () => {
    expect(found(MINUTE_MS, 6000)).toEqual([])
    expect(found(30 * MINUTE_MS, 12_000)).toEqual([])
  })

  it('finds a shard that enters a session with more', () => {
    expect(found(MINUTE_MS, 12_000)).toEqual(['S3-grant', 'S1-quota'])
    expect(found(30 * MINUTE_MS, 18_001)).toEqual(['S3-grant', 'S1-quota'])
    expect(found(30 * MINUTE_MS, 6000)).toEqual(['S2-short'])
  })

  it('finds a session that is announced before the last one has ended, and only then', () => {
    expect(foundAfterAnnouncement(5 * 3_600_000)).toEqual([])
    expect(foundAfterAnnouncement(5 * 3_600_000 - 1)).toEqual(['S3-window-again'])
  })

  it('allows refunds to the same day, even if the quota was of another kind in between', () => {
    expect(foundAfterReturn(2000)).toEqual([])
    expect(foundAfterReturn(2001)).toEqual(['S3-returned'])
  })

  it('counts a top-up of a session that a reset ended for no session', () => {
    expect(foundAfterReset(12_000)).toEqual([])
    expect(foundAfterReset(20_000)).toEqual(['S3-grant', 'S1-quota'])
  })

  it('allows an announced session to be granted after another client changed its kind', () => {
    expect(foundAfterKindChanged(START_MS + 1, 3000)).toEqual([])
    expect(foundAfterKindChanged(START_MS + 1, 3001)).toEqual(['S3-minted'])
    expect(foundAfterKindChanged(BEFORE_MS, 1001)).toEqual(['S3-minted'])
  })

  it('allows a session to start by a length that another client just changed, until processes must know', () => {
    expect(foundAfterLengthened(100)).not.toContain('S3-window-again')
    expect(foundAfterLengthened(31_000)).toContain('S3-window-again')
  })

  it('allows a shard to enter a session that started by the old length, however late', () => {
    expect(foundAfterLengthened(31_000, -1)).not.toContain('S3-window-again')
    expect(foundAfterLengthened(31_000, -4 * 3_600_000)).toContain('S3-window-again')
    expect(foundAfterLengthened(31_000, 4000)).toContain('S3-window-again')
    expect(foundAfterLengthened(31_000, 4000, 5000)).not.toContain('S3-window-again')
  })

  it('keeps the debt of a shard to a window that it has left', () => {
    expect(foundAfterDebt(0)).toEqual([])
    expect(foundAfterDebt(1)).toEqual(['S3-minted', 'S1-quota'])
  })

  it('allows for copies that zae-limiter makes of shards that are behind, and for no others', () => {
    expect(foundAfterCopy('python', 6000)).toEqual([])
    expect(foundAfterCopy('python', 6001)).toEqual(['S3-grant'])
    expect(foundAfterCopy('operator', 6000)).toEqual(['S1-quota'])
  })

  it('allows the grant of a reset once, even if a shard is still missing', () => {
    expect(foundAfterResetOfOne(12_000)).toEqual([])
    expect(foundAfterResetOfOne(12_001)).toEqual(['S1-quota'])
  })

  it('lets only an operator refill a window that a clock ahead had left', () => {
    expect(foundAfterSetBack('reset')).toEqual([])
    expect(foundAfterSetBack('top-up')).not.toEqual([])
  })
})

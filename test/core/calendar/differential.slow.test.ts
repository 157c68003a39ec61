import {isDeepStrictEqual} from 'node:util'
import {describe, expect, it} from 'vitest'
import {CompiledSchedule} from '../../../src/lib/core/calendar/compiled-schedule.js'
import {type Cron, parseCron} from '../../../src/lib/core/calendar/cron.js'
import {type LimitWindow, scaleToPerMille} from '../../../src/lib/core/calendar/schedule.js'
import {
  compileStored,
  formatResets,
  formatWindows,
  parseResets,
  parseWindows,
  ScheduleNotHonoured,
} from '../../../src/lib/core/calendar/stored-schedule.js'
import {DAY_MS, MINUTE_MS, timeZone} from '../../../src/lib/core/calendar/time-zone.js'
import {InvalidInput} from '../../../src/lib/core/errors.js'
import {askPeer, peerPrograms} from './peer-schedule.js'
import {Picker, randomCron, randomInstant, seeded, startsBetween, ZONES} from './random-schedules.js'

interface Question {
  readonly ask: 'evaluate'
  readonly zone: string
  readonly ms: number
  readonly base: readonly [capacityMilli: string, refillAmountMilli: string, refillPeriodMs: number]
  readonly windows: ReadonlyArray<LimitWindow & {readonly scale?: number}>
  readonly resets: readonly string[]
}

/** `null` for none; an endless search is `hangs`. */
type Moment = number | 'hangs' | null

interface Answer {
  /** Of the zone, in ms. */
  readonly offset: number
  readonly texts: readonly [windows: string, resets: string]
  readonly rate: readonly [capacityMilli: string, refillAmountMilli: string, refillPeriodMs: number]
  readonly last: Moment
  readonly next: Moment
  readonly until: Moment
}

interface Difference {
  readonly question: Question
  readonly key: 'last' | 'next' | 'until'
  readonly ours: Moment
  readonly theirs: Moment
}

/** In every run of the slow suites; 100,000 take ten minutes, nearly all in the peer. */
const SCHEDULES = Number(process.env.ZAEL_CALENDAR_SCHEDULES ?? 1_500)
const SEED = Number(process.env.ZAEL_CALENDAR_SEED ?? 1)

/** Differences by class. An unclassified difference fails the suite. */
type DifferenceClass =
  | 'beyond-its-reach'
  | 'skipped-by-its-search'
  | 'never-answered'
  | 'other-zone-data'
  | 'clock-change'

function randomQuestion(pick: Picker): Question {
  const zone = pick.of(ZONES)
  const isQuota = pick.chance(0.5)
  return {
    ask: 'evaluate',
    zone,
    ms: randomInstant(pick, zone),
    base: [
      String(pick.whole(1, 10 ** pick.whole(1, 15)) * 1000),
      isQuota ? '0' : String(pick.whole(1, 10 ** pick.whole(1, 12)) * 1000),
      1000 * pick.whole(1, 100_000),
    ],
    windows: Array.from({length: pick.chance(0.5) ? 0 : pick.whole(1, 3)}, () => randomWindow(pick)),
    resets: Array.from({length: isQuota ? pick.whole(1, 2) : 0}, () => validCron(pick)),
  }
}

function randomWindow(pick: Picker): LimitWindow & {readonly scale?: number} {
  const cron = validCron(pick)
  if (pick.chance(0.6)) return {cron, scale: pick.chance(0.5) ? pick.whole(1, 5000) / 1000 : pick.random() * 3 + 0.0001}
  return {
    cron,
    capacity: pick.whole(1, 10 ** 15),
    ...(pick.chance(0.5) && {refillAmount: pick.whole(1, 10 ** 9)}),
    ...(pick.chance(0.5) && {refillPeriodSeconds: pick.whole(1, 10 ** 9)}),
  }
}

function validCron(pick: Picker): string {
  for (;;) {
    const cron = randomCron(pick)
    try {
      if (!parseCron(cron).isAlways) return cron
    } catch {}
  }
}

/** Our result in the form of the other client. */
function answer({zone, ms, base, windows, resets}: Question): Answer {
  const texts = [
    formatWindows(
      windows.map(({scale, ...window}) =>
        scale === undefined ? window : {...window, scalePerMille: scaleToPerMille(scale)},
      ),
    ),
    formatResets(resets),
  ] as const
  const schedule = compileStored({zone, windows: texts[0], resets: texts[1]})
  const [capacity, amount, refillPeriodMs] = base
  const rate = schedule.rateAt({capacityMilli: BigInt(capacity), refillAmountMilli: BigInt(amount), refillPeriodMs}, ms)
  const horizonMs = Math.min(
    ...windows.map(({cron}) => lengthsOf(parseCron(cron)).windowHorizonMs),
    ...resets.map(cron => reachOf(parseCron(cron), false)),
  )
  const until = Math.min(schedule.nextWindowChange(ms), schedule.nextReset(ms) ?? Infinity, ms + horizonMs)
  return {
    offset: timeZone(zone).spanAt(ms).offsetMs,
    texts,
    rate: [String(rate.capacityMilli), String(rate.refillAmountMilli), rate.refillPeriodMs],
    last: schedule.lastReset(ms) ?? null,
    next: schedule.nextReset(ms) ?? null,
    until: until === Infinity ? null : until,
  }
}

/**
 * Explains differences, by the other client's own definition of a match:
 * - It looks no further than the usual length of the period (31 days for a day of the month, 366 for a date), and finds
 *   none where the day is missing in a month or a year. Back, it finds a reset only if the whole minute, hour or day before
 *   it is within that length too: by which of them it steps depends on what the cron leaves open.
 * - Its search forward steps over hours that come twice when clocks go back by more than an hour, or over midnight.
 * - Its search back does not end on the day on which an hour that is not a whole one is skipped (Pacific/Chatham).
 * - Its time zone data is of another version.
 * - It resets by the clock as it runs: not at a time that is skipped, and again at one that comes twice.
 */
async function classify(
  differences: readonly Difference[],
): Promise<Map<DifferenceClass | 'unexplained', Difference[]>> {
  const looks = differences.map(({question, ours, theirs}) => {
    const near = [ours, theirs].filter(ms => typeof ms === 'number').flatMap(ms => [ms - MINUTE_MS, ms])
    const crons = [...question.windows.map(({cron}) => cron), ...question.resets]
    return {ask: 'look', zone: question.zone, moments: [question.ms, ...near], crons}
  })
  const answers = await askPeer<object, {offsets: number[]; matches: boolean[][]}>(looks)
  const classes = new Map<DifferenceClass | 'unexplained', Difference[]>()
  for (const [at, difference] of differences.entries()) {
    const {zone, moments} = looks[at] as (typeof looks)[number]
    const {offsets, matches} = answers[at] as (typeof answers)[number]
    const isOtherZoneData = moments.some((ms, index) => timeZone(zone).spanAt(ms).offsetMs !== offsets[index])
    const found = isOtherZoneData ? 'other-zone-data' : classOf(difference, matches)
    const name = found === 'unexplained' && isClockChange(difference) ? 'clock-change' : found
    classes.set(name, [...(classes.get(name) ?? []), difference])
  }
  return classes
}

function classOf(
  {question, key, ours, theirs}: Difference,
  matches: readonly boolean[][],
): DifferenceClass | 'unexplained' {
  if (typeof ours !== 'number') return 'unexplained'
  // Moments: the question's, the minute before our answer, our answer.
  const resets = matches.slice(question.windows.length)
  const isStart = resets.some(([, before, at]) => before === false && at === true)
  const isChange = isStart || matches.slice(0, question.windows.length).some(([, before, at]) => before !== at)
  if (theirs === 'hangs') return isChange ? 'never-answered' : 'unexplained'
  if (theirs === null) {
    const reachMs = Math.min(...question.resets.map(parseCron).map(cron => reachOf(cron, key === 'last')))
    return isStart && Math.abs(ours - question.ms) > reachMs ? 'beyond-its-reach' : 'unexplained'
  }
  if (key === 'last') return isStart && ours > theirs ? 'skipped-by-its-search' : 'unexplained'
  return (key === 'next' ? isStart : isChange) && ours < theirs ? 'skipped-by-its-search' : 'unexplained'
}

/** Whether clocks change near one of the results, and ours is a start by the rule for that. */
function isClockChange({question: {zone, resets}, key, ours, theirs}: Difference): boolean {
  const isNear = (ms: Moment) => typeof ms === 'number' && offsetAt(ms - DAY_MS) !== offsetAt(ms + DAY_MS)
  const isStart = (ms: Moment) =>
    typeof ms === 'number' &&
    resets.some(cron => startsBetween(zone, parseCron(cron).text, ms, ms + MINUTE_MS).length > 0)
  // The answer until when a state is valid may also be a change of a window.
  return [ours, theirs].some(isNear) && (key === 'until' || isStart(ours))

  function offsetAt(ms: number): number {
    return timeZone(zone).spanAt(ms).offsetMs
  }
}

/** How far the other client looks for a change, and the longest time between matches of an ordinary month, in ms. */
function lengthsOf({times, days, months, weekdays}: Cron) {
  const matches = [...times.keys()].filter(minute => times[minute] === 1)
  const [hours, minutes] = [new Set(matches.map(at => Math.floor(at / 60))), new Set(matches.map(at => at % 60))]
  const countOf = (bits: number) => (bits >>> 0).toString(2).replaceAll('0', '').length
  const windowHorizonMs = DAY_MS * (minutes.size < 60 ? 7 : hours.size < 24 ? 31 : 366)
  if (countOf(months) < 12) return {windowHorizonMs, cycleMs: 366 * DAY_MS}
  if (countOf(days) < 31) return {windowHorizonMs, cycleMs: 31 * DAY_MS}
  if (countOf(weekdays) < 7) return {windowHorizonMs, cycleMs: 7 * DAY_MS}
  if (hours.size < 24) return {windowHorizonMs, cycleMs: DAY_MS}
  return {windowHorizonMs, cycleMs: minutes.size < 60 ? 60 * MINUTE_MS : MINUTE_MS}
}

function reachOf(cron: Cron, isBack: boolean): number {
  const {windowHorizonMs, cycleMs} = lengthsOf(cron)
  const days = windowHorizonMs / DAY_MS
  const stepMs = days === 7 ? MINUTE_MS : days === 31 ? 60 * MINUTE_MS : DAY_MS
  return Math.max(windowHorizonMs, cycleMs) - (isBack ? stepMs : 0)
}

describe.skipIf(peerPrograms === undefined)('beside zae_limiter.schedule 0.17.0', () => {
  it(
    `evaluates ${SCHEDULES} random schedules alike, and stores them in the same bytes`,
    async () => {
      const pick = new Picker(seeded(SEED))
      const questions = Array.from({length: SCHEDULES}, () => randomQuestion(pick))
      const theirs = await askPeer<Question, Answer>(questions)
      const differences: Difference[] = []
      const otherClocks: string[] = []
      for (const [at, question] of questions.entries()) {
        const ours = answer(question)
        const their = theirs[at] as Answer
        if (ours.offset !== their.offset) {
          otherClocks.push(question.zone)
          continue
        }
        if (String([ours.texts, ours.rate]) !== String([their.texts, their.rate]))
          expect({question, ours}).toEqual(their)
        for (const key of ['last', 'next', 'until'] as const) {
          if (ours[key] !== their[key]) differences.push({question, key, ours: ours[key], theirs: their[key]})
        }
      }
      const classes = await classify(differences)
      const counts = [...classes].map(([name, list]) => `${list.length} ${name} (${zonesOf(list)})`)
      process.stdout.write(
        `${SCHEDULES} schedules and instants; ${otherClocks.length} at which the clocks differ (${[...new Set(otherClocks)]}); ` +
          `answers that differ: ${counts.join(', ') || 'none'}\n`,
      )
      expect(classes.get('unexplained') ?? []).toEqual([])
      expect(otherClocks.length).toBeLessThan(SCHEDULES / 20)
      const skipping = [...(classes.get('skipped-by-its-search') ?? []), ...(classes.get('never-answered') ?? [])]
      expect(skipping.length).toBeLessThan(SCHEDULES / 100)
    },
    600_000 + SCHEDULES * 30,
  )

  it('accepts and rejects the same cron expressions', async () => {
    const pick = new Picker(seeded(SEED + 1))
    const questions = Array.from({length: 10_000}, () => ({ask: 'cron', cron: randomCron(pick, true), zone: 'UTC'}))
    const theirs = await askPeer<object, {accepted: boolean; text?: string}>(questions)
    const different = questions.filter(({cron}, at) => !isDeepStrictEqual(read(cron), theirs[at]))
    expect(different).toEqual([])
    expect(theirs.filter(({accepted}) => accepted).length).toBeGreaterThan(2000)
    expect(theirs.filter(({accepted}) => !accepted).length).toBeGreaterThan(2000)

    function read(cron: string): {accepted: boolean; text?: string} {
      try {
        return {accepted: true, text: storedResets([parseCron(cron).text])}
      } catch (error) {
        if (!(error instanceof InvalidInput)) throw error
        return {accepted: false}
      }
    }
  })

  it('accepts and rejects the same stored texts, and recognises a newer version', async () => {
    const pick = new Picker(seeded(SEED + 2))
    const questions = Array.from({length: 10_000}, () => {
      const kind = pick.of(['windows', 'resets'])
      const window = randomWindow(pick)
      const {scale, ...rest} = window
      const valid =
        kind === 'resets'
          ? formatResets([validCron(pick)])
          : formatWindows([scale === undefined ? rest : {...rest, scalePerMille: scaleToPerMille(scale)}])
      return {ask: 'text', kind, text: damaged(pick, valid)}
    })
    const theirs = await askPeer<object, {accepted: boolean; text?: string; newer?: boolean}>(questions)
    const different = questions.filter(({kind, text}, at) => !isDeepStrictEqual(read(kind, text), theirs[at]))
    expect(different).toEqual([])
    expect(theirs.filter(({accepted}) => !accepted).length).toBeGreaterThan(2000)

    function read(kind: string, text: string): {accepted: boolean; text?: string; newer?: boolean} {
      try {
        if (kind === 'resets') return {accepted: true, text: storedResets(parseResets(text))}
        return {accepted: true, text: formatWindows(parseWindows(text))}
      } catch (error) {
        if (!(error instanceof ScheduleNotHonoured)) throw error
        return {accepted: false, newer: error.problem === 'newer-version'}
      }
    }
  })

  it('accepts no zone that the other client rejects', async () => {
    const names = [
      'PST',
      'IST',
      'europe/berlin',
      'utc',
      'Europe/Berlin ',
      '+05:30',
      'GMT+5',
      'SystemV/EST5',
      '',
      ...ZONES,
    ]
    const zones = [...names, ...Intl.supportedValuesOf('timeZone')]
    const theirs = await askPeer<object, {accepted: boolean}>(
      zones.map(zone => ({ask: 'cron', cron: '0 0 * * *', zone})),
    )
    const refused = zones.filter((_, at) => theirs[at]?.accepted === false)
    expect(refused).toEqual(names.slice(0, 9))
    for (const zone of refused)
      expect(() => new CompiledSchedule({zone, windows: [], resets: []}), zone).toThrow(/time zone/i)
  })
})

/** Zones of differences, with their number. */
function zonesOf(differences: readonly Difference[]): string {
  const counts = new Map<string, number>()
  for (const {question} of differences) counts.set(question.zone, (counts.get(question.zone) ?? 0) + 1)
  return [...counts].map(([zone, count]) => `${zone} ${count}`).join(', ')
}

/** Resets as the other client stores them; zael writes no reset that never happens, but reads it. */
function storedResets(crons: readonly string[]): string {
  return `1${crons.map(cron => formatWindows([{cron, capacity: 1}]).slice(1, -2)).join(';')}`
}

/** A stored text with up to two small changes. */
function damaged(pick: Picker, text: string): string {
  let changed = text
  for (let times = pick.whole(0, 2); times > 0; times--) {
    const at = pick.whole(0, changed.length)
    const piece = pick.of(['', '', 'x', 's', 's5', 'h', ';', '*', '-', '9', '0', ',', '/', 'm0', '2', '#', 'L'])
    changed = changed.slice(0, at) + piece + changed.slice(at + pick.whole(0, 1))
  }
  return changed
}

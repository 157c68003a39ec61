import {parseCron} from '../../../src/lib/core/calendar/cron.js'
import {matchesAt} from '../../../src/lib/core/calendar/cron-search.js'
import {DAY_MS, MINUTE_MS, timeZone} from '../../../src/lib/core/calendar/time-zone.js'

/** Numbers from 0 to 1 that depend only on the seed. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Picks at random, from one source of numbers. */
export class Picker {
  constructor(readonly random: () => number) {}

  whole(min: number, max: number): number {
    return min + Math.floor(this.random() * (max - min + 1))
  }

  chance(probability: number): boolean {
    return this.random() < probability
  }

  of<T>(values: readonly T[]): T {
    return values[Math.floor(this.random() * values.length)] as T
  }
}

/** Zones with daylight saving in both hemispheres, offsets of 30 and 45 minutes, shifts of 30 and 120 minutes. */
export const ZONES = [
  ...[
    'UTC',
    'Europe/Berlin',
    'Europe/London',
    'Europe/Dublin',
    'America/New_York',
    'America/Los_Angeles',
    'America/Havana',
  ],
  ...[
    'America/St_Johns',
    'America/Santiago',
    'America/Sao_Paulo',
    'America/Nuuk',
    'America/Scoresbysund',
    'Atlantic/Azores',
  ],
  ...['Asia/Kolkata', 'Asia/Kathmandu', 'Asia/Tehran', 'Asia/Beirut', 'Asia/Gaza', 'Asia/Tokyo', 'Africa/Cairo'],
  ...[
    'Africa/Casablanca',
    'Australia/Lord_Howe',
    'Australia/Adelaide',
    'Australia/Eucla',
    'Pacific/Chatham',
    'Pacific/Apia',
  ],
  ...['Pacific/Kiritimati', 'Pacific/Easter', 'Antarctica/Troll', 'Etc/GMT+12', 'US/Pacific', 'EST5EDT'],
]

const START_MS = Date.UTC(2016, 0, 1)
const DAYS = 20 * 365

/** An instant in the years 2016 to 2035, often near a clock change, the end of a month or 29 February. */
export function randomInstant(pick: Picker, zone: string): number {
  const anyMs = START_MS + pick.whole(0, DAYS) * DAY_MS + pick.whole(0, DAY_MS - 1)
  const kind = pick.random()
  if (kind < 0.35) {
    let span = timeZone(zone).spanAt(anyMs)
    for (let chunk = 0; chunk < 6; chunk++) {
      const next = timeZone(zone).spanAt(span.untilMs)
      if (next.offsetMs !== span.offsetMs) return span.untilMs + nearby(pick)
      span = next
    }
  }
  const {offsetMs} = timeZone(zone).spanAt(anyMs)
  const date = new Date(anyMs)
  if (kind < 0.6) return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) - offsetMs + nearby(pick)
  if (kind < 0.7) return Date.UTC(2016 + 4 * pick.whole(0, 4), 1, 29) - offsetMs + nearby(pick)
  return anyMs
}

function nearby(pick: Picker): number {
  return pick.chance(0.3) ? pick.of([-60_000, -1, 0, 1, 59_999, 60_000]) : pick.whole(-3 * 3_600_000, 3 * 3_600_000)
}

const MONTHS = ['JAN', 'feb', 'MAR', 'Apr', 'MAY', 'jun', 'JUL', 'AUG', 'sep', 'OCT', 'NOV', 'dec']
const WEEKDAYS = ['SUN', 'MON', 'tue', 'WED', 'thu', 'FRI', 'Sat']

/** A cron expression that is nearly always valid. `isBroken` makes some that are not. */
export function randomCron(pick: Picker, isBroken = false): string {
  const fields = [
    pick.chance(0.25) ? '*' : pick.chance(0.6) ? pick.of(['0', '0', '30', '59', '15']) : field(pick, 0, 59),
    pick.chance(0.35) ? '*' : pick.chance(0.4) ? pick.of(['0', '1', '2', '3', '23']) : field(pick, 0, 23),
    pick.chance(0.6) ? '*' : pick.chance(0.3) ? pick.of(['1', '29', '30', '31', '28-31']) : field(pick, 1, 31),
    pick.chance(0.7) ? '*' : pick.chance(0.3) ? pick.of(['2', 'FEB', '2-3', '10-11']) : field(pick, 1, 12, MONTHS),
    pick.chance(0.6) ? '*' : field(pick, 0, 7, WEEKDAYS),
  ]
  if (isBroken && pick.chance(0.7)) {
    const at = pick.whole(0, 4)
    const wrong = [
      '60',
      '24',
      '32',
      '0',
      '13',
      '8',
      '-1',
      '5-1',
      'SAT-SUN',
      '*/0',
      '1/2/3',
      'L',
      'LW',
      '5L',
      'MON#2',
      '',
    ]
    fields[at] = pick.chance(0.8)
      ? pick.of([...wrong, '1-*', '*-5', ',1', '1,', 'X', '15W', '1-2-3', '00', '007', '0'])
      : `${fields[at]}?`
  }
  const blanks = isBroken && pick.chance(0.2) ? pick.of(['  ', '\t', ' \n']) : ' '
  return fields.join(blanks) + (isBroken && pick.chance(0.05) ? ' *' : '')
}

function field(pick: Picker, min: number, max: number, names: readonly string[] = []): string {
  return Array.from({length: pick.chance(0.7) ? 1 : pick.whole(2, 3)}, () => term(pick, min, max, names)).join(',')
}

function term(pick: Picker, min: number, max: number, names: readonly string[]): string {
  const low = pick.whole(min, max)
  const high = pick.whole(low, max)
  const word = (value: number) => (pick.chance(0.3) ? (names[value - (names.length === 7 ? 0 : min)] ?? value) : value)
  const step = pick.chance(0.3) ? `/${pick.whole(1, max)}` : ''
  const kind = pick.random()
  if (kind < 0.15) return `*${step}`
  if (kind < 0.6) return `${low}-${high}${step}`
  return `${word(low)}${step}`
}

/** Minute by minute: the wall clock triggers each time it first shows, and an hour each time it shows it. */
export function startsBetween(zone: string, text: string, fromMs: number, untilMs: number): number[] {
  const cron = parseCron(text)
  const shown = (ms: number) => ms + timeZone(zone).spanAt(ms).offsetMs
  const isStart = (ms: number, of: string) =>
    matchesAt(cron, timeZone(of), ms) && !matchesAt(cron, timeZone(of), ms - MINUTE_MS)
  const hours = Array.from({length: 24}, (_, hour) => [...cron.times.slice(hour * 60, hour * 60 + 60)])
  if (hours.every(hour => hour.includes(1) && hour.includes(0)))
    return minutes(fromMs, untilMs).filter(ms => isStart(ms, zone))
  let latest = Math.max(...minutes(fromMs - 1560 * MINUTE_MS, fromMs).map(shown))
  return minutes(fromMs, untilMs).filter(ms => {
    const passed = minutes(latest + MINUTE_MS, shown(ms) + MINUTE_MS)
    latest = Math.max(latest, shown(ms))
    return passed.some(wallMs => isStart(wallMs, 'UTC'))
  })
}

function minutes(fromMs: number, endMs: number): number[] {
  return Array.from({length: Math.max(0, (endMs - fromMs) / MINUTE_MS)}, (_, index) => fromMs + index * MINUTE_MS)
}

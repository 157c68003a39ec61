import {InvalidInput} from '../errors.js'
import {canonicalCron, MONTHS, WEEKDAYS} from '../limits/limit.js'

export interface Cron {
  /** As stored: names as numbers, single spaces. */
  readonly text: string
  /** 1 for each minute of the day that matches, else 0. */
  readonly times: Uint8Array
  /** Bit n is day, month or weekday n; weekdays are 1 (Monday) to 7. */
  readonly days: number
  readonly months: number
  readonly weekdays: number
  /** Otherwise day or weekday is enough. */
  readonly needsBothDays: boolean
  /** Matches every minute, so it never starts. */
  readonly isAlways: boolean
  /** Starts in every hour of the day, so its periods are elapsed hours, not times of the day. */
  readonly isHourly: boolean
}

interface Field {
  readonly name: string
  readonly min: number
  readonly max: number
  readonly names?: readonly string[]
}

const MINUTE: Field = {name: 'minute', min: 0, max: 59}
const HOUR: Field = {name: 'hour', min: 0, max: 23}
const DAY: Field = {name: 'day of the month', min: 1, max: 31}
const MONTH: Field = {name: 'month', min: 1, max: 12, names: MONTHS}
const WEEKDAY: Field = {name: 'day of the week', min: 0, max: 7, names: WEEKDAYS}
const LONGEST_MONTHS = [0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

const HINT =
  'Write five fields: minute, hour, day of the month, month, day of the week, for example "0 0 * * *" or "* 9-17 * * MON-FRI".'

/** If a day field starts with `*`, both day fields must match; otherwise one is enough. */
export function parseCron(text: string): Cron {
  const specs = text.split(/[ \t\n\v\f\r]+/).filter(spec => spec !== '')
  const [minuteSpec, hourSpec, daySpec, monthSpec, weekdaySpec] = specs
  if (specs.length !== 5 || !minuteSpec || !hourSpec || !daySpec || !monthSpec || !weekdaySpec) {
    throw refuseCron(text, `it has ${specs.length} fields, not 5`)
  }
  const minutes = fieldValues(text, minuteSpec, MINUTE)
  const hours = fieldValues(text, hourSpec, HOUR)
  const days = fieldValues(text, daySpec, DAY)
  const months = fieldValues(text, monthSpec, MONTH)
  const weekdays = new Set([...fieldValues(text, weekdaySpec, WEEKDAY)].map(day => (day === 0 ? 7 : day)))
  const needsBothDays = daySpec.startsWith('*') || weekdaySpec.startsWith('*')
  const longestMonth = Math.max(...[...months].map(month => LONGEST_MONTHS[month] as number))
  if (needsBothDays && Math.min(...days) > longestMonth) {
    throw refuseCron(text, `none of its months has ${Math.min(...days)} days`)
  }

  const isEveryDay = needsBothDays ? days.size === 31 && weekdays.size === 7 : days.size === 31 || weekdays.size === 7
  return {
    text: canonicalCron(specs.join(' ')),
    times: Uint8Array.from({length: 1440}, (_, at) => (hours.has(Math.floor(at / 60)) && minutes.has(at % 60) ? 1 : 0)),
    ...{days: bits(days), months: bits(months), weekdays: bits(weekdays), needsBothDays},
    isAlways: isEveryDay && months.size === 12 && hours.size === 24 && minutes.size === 60,
    // Planted fault: a midnight that occurs twice begins two days
    isHourly: hours.size === 24 && minutes.size < 60,
  }
}

function fieldValues(text: string, spec: string, field: Field): Set<number> {
  return new Set(spec.split(',').flatMap(term => termValues(term)))

  function termValues(term: string): number[] {
    const slash = term.indexOf('/')
    if (slash < 0) return rangeValues(term, term)
    const step = digits(term.slice(slash + 1))
    if (step === undefined || step === 0) throw refuse(term)
    const values = rangeValues(term.slice(0, slash), term)
    const [first] = values
    // A step after a single number runs to the end of the field: 5/15 is 5-59/15.
    const stepped = values.length === 1 && first !== undefined ? between(first, field.max) : values
    return stepped.filter((_, at) => at % step === 0)
  }

  function rangeValues(range: string, term: string): number[] {
    if (range === '*') return between(field.min, field.max)
    const dash = range.indexOf('-')
    const from = value(dash < 0 ? range : range.slice(0, dash))
    const to = dash < 0 ? from : value(range.slice(dash + 1))
    if (from === undefined || to === undefined || to < from) throw refuse(term)
    return between(from, to)
  }

  function value(word: string): number | undefined {
    const at = field.names?.indexOf(word.toUpperCase()) ?? -1
    const number = at < 0 ? digits(word) : at + field.min
    return number !== undefined && number >= field.min && number <= field.max ? number : undefined
  }

  function refuse(term: string): InvalidInput {
    const isExtension = field !== MINUTE && field !== HOUR && /[LW#]/i.test(term)
    const why = isExtension
      ? `"${term}" uses L, W or #, which clients of the table cannot evaluate`
      : `"${term}" is not a valid ${field.name} (${field.min} to ${field.max}), range or step`
    return refuseCron(text, why)
  }
}

function refuseCron(text: string, why: string): InvalidInput {
  return new InvalidInput('cron.syntax', `Cannot read the cron expression "${text}": ${why}.`, {
    hint: HINT,
    details: {text, why},
  })
}

function digits(text: string): number | undefined {
  return /^[0-9]+$/.test(text) ? Number(text) : undefined
}

function between(from: number, to: number): number[] {
  return Array.from({length: to - from + 1}, (_, at) => from + at)
}

function bits(values: Iterable<number>): number {
  let mask = 0
  for (const value of values) mask |= 1 << value
  return mask
}

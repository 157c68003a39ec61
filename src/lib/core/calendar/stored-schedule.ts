import {ZaelError} from '../errors.js'
import {CompiledSchedule} from './compiled-schedule.js'
import {parseCron} from './cron.js'
import {type LimitSchedule, type LimitWindow, makeReset, makeWindow} from './schedule.js'
import {checkTimeZoneName} from './time-zone.js'

export interface StoredSchedule {
  /** Missing means UTC. */
  readonly zone?: string | undefined
  readonly windows?: string | undefined
  readonly resets?: string | undefined
}

export type ScheduleProblem = 'newer-version' | 'malformed' | 'unknown-zone'

/** The request must fail: without the schedule a different limit would apply. */
export class ScheduleNotHonoured extends ZaelError {
  readonly problem: ScheduleProblem

  constructor(problem: ScheduleProblem, text: string, why: string, cause?: unknown) {
    super('conflict', 'schedule.not-honoured', `The stored schedule "${text}" cannot be applied: ${why}.`, {
      hint:
        problem === 'newer-version'
          ? 'A newer client wrote it. Install a newer zael.'
          : 'Set the limit again to replace its schedule.',
      details: {text, problem},
      cause,
    })
    this.problem = problem
  }
}

/** "No schedule" for a limit whose record has a shared one. */
export const NO_SCHEDULE = '-'

const VERSION = '1'
const CRON_TAGS = ['m', 'h', 'D', 'M', 'w'] as const
const NUMBER_TAGS = [
  ['s', 'scalePerMille'],
  ['c', 'capacity'],
  ['a', 'refillAmount'],
  ['p', 'refillPeriodSeconds'],
] as const
const TOKEN = /([mhDMwscap])([^mhDMwscap]+)/y

/** `1h9-17w1-5s500`: each cron field that is not `*` after its letter, then the numbers. Empty when there are none. */
export function formatWindows(windows: readonly LimitWindow[]): string {
  return formatEntries(
    windows.map(makeWindow).map(window => {
      const numbers = NUMBER_TAGS.map(([tag, key]) => (window[key] === undefined ? '' : `${tag}${window[key]}`))
      return formatCron(window.cron) + numbers.join('')
    }),
  )
}

export function formatResets(resets: readonly string[]): string {
  return formatEntries(resets.map(cron => formatCron(makeReset(cron))))
}

export function parseWindows(text: string): LimitWindow[] {
  return parseEntries(text, tokens => {
    const numbers = NUMBER_TAGS.flatMap(([tag, key]) => {
      const digits = tokens.get(tag)
      return digits === undefined ? [] : [[key, wholeNumber(digits)]]
    })
    return makeWindow({cron: cronOf(tokens), ...Object.fromEntries(numbers)})
  })
}

export function parseResets(text: string): string[] {
  return parseEntries(text, tokens => {
    for (const [tag] of NUMBER_TAGS) if (tokens.has(tag)) throw new Error(`a reset has no "${tag}"`)
    return parseCron(cronOf(tokens)).text
  })
}

/** Throws {@link ScheduleNotHonoured} on anything it does not fully understand. */
export function parseStoredSchedule(stored: StoredSchedule): LimitSchedule {
  const zone = stored.zone || 'UTC'
  const {windows = '', resets = ''} = stored
  const schedule = {zone, windows: parseWindows(windows), resets: parseResets(resets)}
  try {
    checkTimeZoneName(zone)
  } catch (error) {
    throw new ScheduleNotHonoured(
      'unknown-zone',
      windows || resets,
      `the time zone "${zone}" is unknown on this system`,
      error,
    )
  }
  return schedule
}

const MOST_COMPILED = 1000
const compiled = new Map<string, CompiledSchedule>()

/** Cached: equal texts give the same object. */
export function compileStored(stored: StoredSchedule): CompiledSchedule {
  const key = JSON.stringify([stored.zone, stored.windows, stored.resets])
  let schedule = compiled.get(key)
  if (schedule === undefined) {
    schedule = new CompiledSchedule(parseStoredSchedule(stored))
    if (compiled.size >= MOST_COMPILED) compiled.clear()
    compiled.set(key, schedule)
  }
  return schedule
}

export function ownSchedule(shared: string | undefined, own: string | undefined): string {
  if (own === NO_SCHEDULE) return ''
  return own || shared || ''
}

export interface SharedSchedule {
  readonly shared: string
  readonly own: ReadonlyMap<string, string>
}

/** The first schedule becomes the shared one. `undefined` when no limit has a schedule. */
export function shareSchedules(byLimit: ReadonlyMap<string, string>): SharedSchedule | undefined {
  const shared = [...byLimit.values()].find(text => text !== '')
  if (shared === undefined) return undefined
  const own = [...byLimit]
    .filter(([, text]) => text !== shared)
    .map(([name, text]) => [name, text || NO_SCHEDULE] as const)
  return {shared, own: new Map(own)}
}

function formatEntries(entries: readonly string[]): string {
  return entries.length === 0 ? '' : VERSION + entries.join(';')
}

function formatCron(cron: string): string {
  const fields = cron.split(' ')
  return CRON_TAGS.map((tag, at) => (fields[at] === '*' ? '' : `${tag}${fields[at]}`)).join('')
}

function cronOf(tokens: ReadonlyMap<string, string>): string {
  return CRON_TAGS.map(tag => tokens.get(tag) ?? '*').join(' ')
}

function parseEntries<T>(text: string, read: (tokens: ReadonlyMap<string, string>) => T): T[] {
  if (text === '') return []
  const [, version, body = ''] = /^([0-9]*)(.*)$/s.exec(text) as RegExpExecArray
  if (version === '') throw new ScheduleNotHonoured('malformed', text, 'it does not begin with a version')
  if (body === '') throw new ScheduleNotHonoured('malformed', text, 'it is empty after the version')
  if (Number(version) > Number(VERSION)) {
    throw new ScheduleNotHonoured(
      'newer-version',
      text,
      `its version is ${version}, and the newest supported version is ${VERSION}`,
    )
  }
  if (Number(version) < 1) throw new ScheduleNotHonoured('malformed', text, `version ${version} does not exist`)
  return body.split(';').map(entry => {
    try {
      return read(tokensOf(entry))
    } catch (error) {
      const why = error instanceof Error ? error.message.replace(/\.$/, '') : String(error)
      throw new ScheduleNotHonoured('malformed', text, why, error)
    }
  })
}

function tokensOf(entry: string): Map<string, string> {
  const tokens = new Map<string, string>()
  let at = 0
  while (at < entry.length) {
    TOKEN.lastIndex = at
    const [token, tag, value] = TOKEN.exec(entry) ?? []
    if (token === undefined || tag === undefined || value === undefined) {
      throw new Error(`"${entry.slice(at)}" is unknown`)
    }
    if (tokens.has(tag)) throw new Error(`"${tag}" appears twice`)
    tokens.set(tag, value)
    at += token.length
  }
  return tokens
}

function wholeNumber(digits: string): number {
  if (/^[0-9]+$/.test(digits)) return Number(digits)
  throw new Error(`"${digits}" is not a whole number`)
}

import {definitionIn, kindOf, PLAIN_DEFINITION} from '../core/calendar/kind-definition.js'
import {ownSchedule, shareSchedules} from '../core/calendar/stored-schedule.js'
import {InvalidInput} from '../core/errors.js'
import type {LimitKind, Quota} from '../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {type AttributeValue, type Item, n, readBigInt, readNumber, readString, s} from './attribute-value.js'
import {attributes, remembering} from './attributes.js'

const names = attributes.bucket

/** Instants in epoch ms, amounts in millitokens. */
const FIELDS = {
  windows: 'sched',
  resets: 'rsched',
  sessionSeconds: 'rsa',
  sessionStart: 'ws',
  sessionApplied: 'wa',
  consumedMark: 'wtc',
  grantCount: 'gc',
  topUp: 'tu',
  resetNumber: 'rn',
  heldPeriod: 'hp',
  softUntil: 'soft',
} as const

type KindField = keyof typeof FIELDS

export const KIND_SUFFIXES: readonly string[] = Object.values(FIELDS)

const attributesOf = remembering(
  limit =>
    Object.fromEntries(Object.entries(FIELDS).map(([field, suffix]) => [field, `b_${limit}_${suffix}`])) as Readonly<
      Record<KindField, string>
    >,
)

export const kindAttribute = (limit: string, field: KindField): string => attributesOf(limit)[field]

export function isKindAttribute(attribute: string): boolean {
  if (attribute === names.schedule || attribute === names.resets) return true
  return attribute.startsWith('b_') && KIND_SUFFIXES.includes(attribute.slice(attribute.lastIndexOf('_') + 1))
}

export function decodeKind(item: Item, limit: string): LimitKind | undefined {
  if (limit === WRITE_PRESSURE_LIMIT) return undefined
  const text = (field: 'windows' | 'resets') => readString(item, kindAttribute(limit, field))
  const number = (field: KindField) => readNumber(item, kindAttribute(limit, field))
  const milli = (field: KindField) => readBigInt(item, kindAttribute(limit, field))
  const kind = kindOf({
    zone: readString(item, names.timeZone),
    windows: ownSchedule(readString(item, names.schedule), text('windows')),
    resets: ownSchedule(readString(item, names.resets), text('resets')),
    sessionSeconds: number('sessionSeconds'),
  })
  const softUntilMs = kindAttribute(limit, 'softUntil') in item ? (number('softUntil') ?? 0) : undefined
  if (!kind) return softUntilMs === undefined ? undefined : {definition: PLAIN_DEFINITION, softUntilMs}
  const session = kind.quota?.session && {
    ...kind.quota.session,
    startMs: number('sessionStart'),
    appliedMs: number('sessionApplied'),
    consumedMarkMilli: milli('consumedMark'),
  }
  const quota: Quota | undefined = kind.quota && {
    ...kind.quota,
    ...(session && {session}),
    grantCount: number('grantCount'),
    topUpMilli: milli('topUp'),
    resetNumber: number('resetNumber'),
    heldMs: number('heldPeriod'),
  }
  return {...kind, ...(quota && {quota}), ...(softUntilMs !== undefined && {softUntilMs})}
}

export function encodeKindState(limit: string, kind: LimitKind | undefined): Map<string, AttributeValue | undefined> {
  const {quota, softUntilMs} = kind ?? {}
  const session = quota?.session
  const fields: [KindField, number | bigint | undefined][] = [
    ['sessionSeconds', session && session.lengthMs / 1000],
    ['sessionStart', session?.startMs],
    ['sessionApplied', session?.appliedMs],
    ['consumedMark', session?.consumedMarkMilli],
    ['grantCount', quota?.grantCount],
    ['topUp', quota?.topUpMilli],
    ['resetNumber', quota?.resetNumber],
    ['heldPeriod', quota?.heldMs],
    ['softUntil', softUntilMs],
  ]
  return new Map(
    fields.map(([field, value]) => [kindAttribute(limit, field), value === undefined ? undefined : n(value)]),
  )
}

/** One shared text for most limits, and separate texts for the others. All limits share one zone. */
export function encodeCalendars(
  kinds: ReadonlyMap<string, LimitKind | undefined>,
): Map<string, AttributeValue | undefined> {
  const defined = new Map<string, ReturnType<typeof definitionIn> | undefined>()
  for (const [name, kind] of kinds) if (name !== WRITE_PRESSURE_LIMIT) defined.set(name, kind && definitionIn(kind))
  const zones = new Set([...defined.values()].flatMap(each => each?.zone ?? []))
  if (zones.size > 1)
    throw new InvalidInput(
      'limit.zones',
      `The limits of a bucket must share one time zone, but these have ${[...zones].join(', ')}.`,
    )
  const [zone] = zones
  const stored = new Map<string, AttributeValue | undefined>([
    [names.timeZone, zone === undefined ? undefined : s(zone)],
  ])
  for (const field of ['windows', 'resets'] as const) {
    const shared = shareSchedules(new Map([...defined].map(([name, each]) => [name, each?.[field] ?? ''])))
    stored.set(field === 'windows' ? names.schedule : names.resets, shared && s(shared.shared))
    for (const name of defined.keys()) {
      const own = shared?.own.get(name)
      stored.set(kindAttribute(name, field), own === undefined ? undefined : s(own))
    }
  }
  return stored
}

export interface StoredFeedback {
  readonly atMs: number
  /** Whole tokens. */
  readonly left?: number | undefined
  /** After the provider refused a request: epoch ms when a request of that size is admitted. */
  readonly clearsAtMs?: number | undefined
}

const PREFIX = `${attributes.feedback.told}_`

export const isFeedbackAttribute = (attribute: string): boolean => attribute.startsWith(PREFIX)

export const feedbackAttribute = (limit: string): string => `${PREFIX}${limit}`

/** `<instant>|left:<tokens>` or `<instant>|clears:<instant>`. Text, so that no client reads it as a counter. */
export function encodeFeedback({atMs, left, clearsAtMs}: StoredFeedback): AttributeValue {
  return s(`${atMs}|${clearsAtMs === undefined ? `left:${left ?? 0}` : `clears:${clearsAtMs}`}`)
}

export function readFeedback(item: Item): ReadonlyMap<string, StoredFeedback> {
  const feedback = new Map<string, StoredFeedback>()
  for (const attribute of Object.keys(item)) {
    if (!isFeedbackAttribute(attribute)) continue
    const match = /^(\d{1,15})\|(left|clears):(\d{1,16})$/.exec(readString(item, attribute) ?? '')
    if (!match) continue
    const [atMs, value] = [Number(match[1]), Number(match[3])]
    feedback.set(attribute.slice(PREFIX.length), match[2] === 'left' ? {atMs, left: value} : {atMs, clearsAtMs: value})
  }
  return feedback
}

import {isoMinute} from '../../core/calendar/windows-until.js'
import {groupBy} from '../../core/group-by.js'
import {limitText, type NextLevel, plainRate, rateText} from '../../core/limits/boost-text.js'
import {isInFlight, kindNameOf, type Limit, tokenLimits} from '../../core/limits/limit.js'
import {formatLimit, type LimitChange, limitChanges} from '../../core/limits/limit-text.js'
import {isTroublesomeForPython} from '../../core/names.js'
import {firstItems, formatCount, formatList, formatMinute, formatPlural} from '../../core/text/text.js'
import type {EntityRecordChange} from '../../manifest/manifest.js'
import type {SyncResult} from '../../repository/limits/bucket-sync.js'
import type {ConfigRecord, ConfigScope, Policies} from '../../schema/config-record.js'
import {scopeWords} from '../base/scope.js'
import type {Listing} from '../output/listing.js'
import {factLines} from '../output/text-table.js'
import {type ChangeOutcome, SCOPE_COLUMNS} from './json.js'

const NONE = '(none)'

export function pythonNameWarning({before, after}: Pick<ChangeOutcome, 'before' | 'after'>): string | undefined {
  const known = new Set(before.map(({name}) => name))
  const names = tokenLimits(after)
    .map(({name}) => name)
    .filter(name => !known.has(name) && isTroublesomeForPython(name))
  if (names.length === 0) return undefined
  return `Clients of zae-limiter 0.10 cannot charge a limit with "-" or "." in its name (${formatList(names)}).`
}

/** `next`: the level that applies when a temporary copy expires. */
export function changeText({before, after}: LimitChange, next?: NextLevel): string {
  const [was, is] = [before ? rateText(before, next) : NONE, after ? rateText(after, next) : NONE]
  return was === is ? `${is}, unchanged` : `${was} → ${is}`
}

/** `undefined` if the kind stays. */
export function kindChangeText({before, after}: LimitChange): string | undefined {
  const text = newKindText({before, after})
  if (text === undefined || !before || !after) return undefined
  return `${text}: ${isInFlight(before) ? 'it starts full' : BALANCES[kindNameOf(after)]}`
}

function newKindText({before, after}: Pick<LimitChange, 'before' | 'after'>): string | undefined {
  if (!before || !after || kindNameOf(before) === kindNameOf(after)) return undefined
  const words = (limit: Limit) => `${isInFlight(limit) ? 'an' : 'a'} ${kindNameOf(limit)} (${plainRate(limit)})`
  return `from ${words(before)} to ${words(after)}`
}

/** The balance of a bucket in use after a limit became one of this kind. */
const BALANCES = {
  rate: 'balances stay, up to the burst, and refill',
  'calendar quota': 'balances stay, up to the allowance, until the next reset',
  'session quota': 'the next request gets the whole allowance',
  'in-flight limit': 'requests already in flight do not count',
} as const

/** At most one text. */
export function scopeKindChanges(
  changes: readonly {
    readonly scope: ConfigScope
    readonly before: readonly Limit[]
    readonly after: readonly Limit[]
  }[],
): string[] {
  const changed = changes.flatMap(({scope, before, after}) =>
    limitChanges(before, after).flatMap(change => {
      const text = newKindText(change)
      return text === undefined ? [] : [{scope, name: change.name, text}]
    }),
  )
  const texts = [...groupBy(changed, ({name, text}) => `${name} ${text}`).values()].map(same => {
    const {name, scope, text} = same[0] as (typeof changed)[number]
    const more = same.length === 1 ? '' : ` and ${formatPlural(same.length - 1, 'other scope')}`
    return `${name} of ${scopeWords(scope)}${more} ${text}`
  })
  return texts.length === 0 ? [] : [`the kind of ${listText(texts)}`]
}

/** In a dry run: what the change would ask. */
export const confirmationLine = (question: string): string => `Needs confirmation: ${question}`

const MOST_SHOWN = 5

export function listText(texts: readonly string[]): string | undefined {
  const shown = firstItems(texts, MOST_SHOWN, rest => `and ${formatCount(rest)} more`)
  return texts.length === 0 ? undefined : shown.join('; ')
}

/** After a blank line: the number of lines, and some of them. `elsewhere`: how to see all. */
export function firstLines(
  title: string,
  lines: readonly string[],
  {count = formatCount(lines.length), elsewhere = ''} = {},
): string[] {
  if (lines.length === 0) return []
  const shown = firstItems(lines, MOST_LINES, rest => `and ${formatCount(rest)} more${elsewhere}`)
  return ['', `${title}: ${count}`, ...shown.map(line => `  ${line}`)]
}

const MOST_LINES = 10

export function policyText(was: string | undefined, is: string | undefined): string | undefined {
  if (was === undefined && is === undefined) return undefined
  return was === is ? `${is}, unchanged` : `${was ?? NONE} → ${is ?? NONE}`
}

export function bucketsText({checked, updated, failed}: SyncResult): string {
  if (checked === 0) return 'none affected'
  const rest = checked - updated - failed
  return [
    `${formatCount(updated)} updated`,
    ...(rest > 0 ? [`${formatCount(rest)} already up to date`] : []),
    ...(failed > 0 ? [`${formatCount(failed)} not updated; their next request updates them`] : []),
  ].join(', ')
}

export function cascadeText(cascade: boolean | undefined): string | undefined {
  return cascade === undefined ? undefined : cascade ? 'on' : 'off'
}

export function configLines(config: ConfigRecord): string[] {
  const {scope, limits, onUnavailable, auditRetentionDays, cascade} = config
  return factLines(`Limits of ${scopeWords(scope)}`, {
    ...Object.fromEntries(limits.map(limit => [limit.name, rateText(limit)])),
    access: accessText(config),
    reason: config.accessReason,
    cascade: cascadeText(cascade),
    'on unavailable': onUnavailable,
    'audit retention': retentionText({auditRetentionDays}),
  })
}

export function retentionText(config: Pick<ConfigRecord, 'auditRetentionDays'> | undefined): string | undefined {
  const days = config?.auditRetentionDays
  return days === undefined ? undefined : `${formatCount(days)} days`
}

export function unsetQuestion({scope, limits, onUnavailable}: ConfigRecord, loss?: string): string {
  const names = limits.map(({name}) => name)
  const policy = onUnavailable === undefined ? [] : [`the outage policy (${onUnavailable})`]
  const question = `This removes ${formatList([...names, ...policy])} from ${scopeWords(scope)}`
  return loss === undefined ? question : `${question}. ${loss}`
}

export function accessText({access, accessUntilMs}: Policies): string | undefined {
  return access === undefined || accessUntilMs === undefined ? access : `${access} until ${formatMinute(accessUntilMs)}`
}

export function configuredText({cascade, limits, ...access}: Policies & Pick<ConfigRecord, 'limits'>): string {
  const policies = [
    ...(access.access === undefined ? [] : [accessText(access)]),
    ...(cascade === undefined ? [] : [cascade ? 'cascade' : 'no-cascade']),
  ]
  return [...policies, ...limits.map(limitText)].join(' ')
}

export function configListing(rows: readonly ConfigRecord[]): Listing<ConfigRecord> {
  return {
    rows,
    columns: [
      ...SCOPE_COLUMNS,
      {name: 'limits', fit: 'text', value: configuredText, raw: ({limits}) => limits.map(formatLimit).join(' ')},
      {
        name: 'boosts',
        isExtra: true,
        value: ({limits}) =>
          limits
            .filter(({boost}) => boost)
            .map(({name, boost}) => `${name} until ${isoMinute(boost?.untilMs ?? 0)}`)
            .join(' ') || undefined,
      },
      {name: 'access', isExtra: true, value: ({access}) => access},
      {name: 'cascade', isExtra: true, value: ({cascade}) => cascadeText(cascade), raw: ({cascade}) => cascade},
      {name: 'on-unavailable', isExtra: true, value: ({onUnavailable}) => onUnavailable},
      {name: 'audit-retention', isExtra: true, value: ({auditRetentionDays}) => auditRetentionDays},
    ],
    empty: 'No limits are configured. To set one: zael limits set --resource NAME rpm=100/min',
  }
}

export function fieldChanges({action, before, after}: EntityRecordChange): string[] {
  return (Object.keys(after) as (keyof typeof after)[]).map(field => {
    const is = fieldText(after[field])
    return action === 'create' ? `${field} ${is}` : `${field} ${fieldText(before[field])} → ${is}`
  })
}

function fieldText(value: unknown): string {
  if (value === null || value === undefined) return NONE
  return typeof value === 'string' ? value : JSON.stringify(value)
}

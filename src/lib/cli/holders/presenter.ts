import {
  firstItems,
  formatCount,
  formatList,
  formatPlural,
  formatSome,
  formatSpan,
  formatTokens,
} from '../../core/text/text.js'
import type {InFlightLevel, SlotHolder} from '../../insight/holders/in-flight.js'
import type {HeldSlotsOf, HolderState, Released, ReservedOf} from '../../insight/holders/release.js'
import type {ReservedBy} from '../../insight/holders/reserved-by.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {HOLDER_MARGIN_MS, HOLDER_PERIOD_MS, type HolderRecord, seemsDead} from '../../schema/holder-record.js'
import type {Listing} from '../output/listing.js'
import type {HoldersListResult, HoldersReleaseResult, InFlightJson, ReservedByJson} from './results.js'

/** More would hide the largest ones. JSON has all. */
const MOST_SHOWN = 8

/** Others compare beats for so long. */
const BACK_AFTER = formatSpan(HOLDER_PERIOD_MS + HOLDER_MARGIN_MS)

/** "gw-a (pid 991) 4, beat 4 s ago · gw-b (pid 77) 3, dead". */
export function slotHoldersText(holders: readonly SlotHolder[], nowMs: number): string {
  return holdersText(
    holders.map(each => `${holderText(each)} ${formatCount(each.slots)}, ${beatText(each.record, nowMs)}`),
  )
}

/** "gw-a (pid 991) 4,000, no beat for 2 min: comes back about 35 s after the next refusal". */
export function reservedByText(holders: readonly ReservedBy[], unit: string | undefined, nowMs: number): string {
  const texts = holders.map(each => {
    const {record, tokens} = each
    const wait = record.isDead ? '' : `about ${BACK_AFTER} `
    const back = seemsDead(record, nowMs) ? `: comes back ${wait}after the next refusal` : ''
    return `${holderText(each)} ${formatTokens(tokens, unit)}, ${beatText(record, nowMs)}${back}`
  })
  return holdersText(texts)
}

const holdersText = (texts: readonly string[]): string =>
  firstItems(texts, MOST_SHOWN, more => formatPlural(more, 'more holder')).join(' · ')

const holderText = ({id, record}: Pick<SlotHolder, 'id' | 'record'>): string => (record ? processText(record) : id)

export function processText({id, host, pid}: HolderRecord): string {
  return `${host ?? id}${pid === undefined ? '' : ` (pid ${pid})`}`
}

function beatText(record: HolderRecord | undefined, nowMs: number): string {
  if (!record) return 'no record'
  if (record.isDead) return 'dead'
  if (record.beatAtMs === undefined) return 'last beat unknown'
  const ageMs = Math.max(0, nowMs - record.beatAtMs)
  return ageMs < HOLDER_PERIOD_MS ? `beat ${formatSpan(ageMs)} ago` : `no beat for ${formatSpan(ageMs)}`
}

export function inFlightText({inUse, capacity}: Pick<InFlightLevel, 'inUse' | 'capacity'>): string {
  return `${formatCount(inUse)} of ${formatCount(capacity)} in flight`
}

export function inFlightJson(levels: readonly InFlightLevel[]): InFlightJson {
  return levels.map(({limit, capacity, free, inUse, holders}) => ({
    ...{limit, capacity, free, inUse},
    holders: holders.map(({id, slots, record}) => ({...holderJson(id, record), slots})),
  }))
}

export const reservedByJson = (holders: readonly ReservedBy[]): ReservedByJson =>
  holders.map(({id, record, tokens}) => ({...holderJson(id, record), tokens}))

function holderJson(id: string, record: HolderRecord | undefined) {
  const {host = null, pid = null, startedAt = null, beatAtMs, isDead = false} = record ?? {}
  return {id, host, pid, startedAt, beatAt: beatAtMs === undefined ? null : isoSeconds(beatAtMs), isDead}
}

const STATE_WORDS: Readonly<Record<HolderState, string>> = {
  unknown: 'not compared',
  alive: 'alive',
  silent: 'no beat',
  dead: 'dead',
}

export interface HolderRow {
  readonly id: string
  readonly record: HolderRecord | undefined
  readonly state: HolderState
  /** `undefined`: not read. */
  readonly held: readonly HeldSlotsOf[] | undefined
  readonly reserved: readonly ReservedOf[] | undefined
}

export function holderListing(rows: readonly HolderRow[], nowMs: number): Listing<HolderRow> {
  return {
    rows,
    columns: [
      {name: 'holder', fit: 'key', value: ({id}) => id},
      {name: 'host', value: ({record}) => record?.host},
      {name: 'pid', align: 'right', value: ({record}) => record?.pid?.toString(), raw: ({record}) => record?.pid},
      {name: 'started', fit: 'spare', value: ({record}) => record?.startedAt},
      {
        name: 'beat',
        header: 'LAST BEAT',
        value: ({record}) => beatAgeText(record, nowMs),
        raw: ({record}) => (record?.beatAtMs === undefined ? undefined : isoSeconds(record.beatAtMs)),
      },
      {name: 'state', fit: 'key', value: ({state}) => STATE_WORDS[state]},
      {
        name: 'slots',
        fit: 'text',
        isExtra: rows.every(({held}) => held === undefined),
        value: ({held}) => held && (held.map(heldText).join(', ') || 'none'),
      },
      {
        name: 'reserved',
        fit: 'text',
        isExtra: rows.every(({reserved}) => reserved === undefined),
        value: ({reserved}) => reserved && (formatSome(reserved.map(reservedLine), MOST_SHOWN) || 'none'),
      },
    ],
    empty: 'No holders: no process has held slots or reserved tokens in the last day.',
  }
}

function beatAgeText(record: HolderRecord | undefined, nowMs: number): string | undefined {
  if (record?.beatAtMs === undefined || record.isDead) return undefined
  return `${formatSpan(Math.max(0, nowMs - record.beatAtMs))} ago`
}

function heldText({entity, resource, slots}: HeldSlotsOf): string {
  return `${entity} · ${resource} ${countsText(slots)}`
}

const reservedLine = ({entity, resource, tokens}: ReservedOf): string => `${entity} · ${resource} ${countsText(tokens)}`

const countsText = (counts: ReadonlyMap<string, number>): string =>
  [...counts].map(([limit, count]) => `${limit} ${formatCount(count)}`).join(' ')

export function holdersJson(rows: readonly HolderRow[]): HoldersListResult['holders'] {
  return rows.map(({id, record, state, held, reserved}) => ({
    ...holderJson(id, record),
    state,
    buckets: held === undefined ? null : held.map(bucketJson),
    reserved: reserved === undefined ? null : reserved.map(reservedJson),
  }))
}

const reservedJson = ({entity, resource, tokens}: ReservedOf) => ({
  ...{entity, resource},
  tokens: Object.fromEntries(tokens),
})

const bucketJson = ({entity, resource, slots}: HeldSlotsOf) => ({entity, resource, slots: Object.fromEntries(slots)})

export function waitText(passedMs: number): string {
  return `Comparing beats: ${formatSpan(passedMs)} of ${BACK_AFTER}`
}

export const forceQuestion = (id: string): string =>
  `This gives the slots and reserved tokens of ${id} to others, even if its process is alive. Its running work is then not ` +
  'counted, so more requests than the limits allow may run at the same time'

export function releasedLines(id: string, {record, wasDead, returned, tokens}: Released): string[] {
  const process = record ? `${processText(record)}` : id
  if (returned.length + tokens.length === 0) {
    return [`${process} holds no slots and no reserved tokens: nothing to release`]
  }
  const slots = returned.flatMap(each => [...each.slots.values()]).reduce((sum, count) => sum + count, 0)
  const dead = wasDead ? 'was already declared dead' : 'is declared dead'
  const parts = [
    ...(slots > 0 ? [`${formatPlural(slots, 'slot')} of ${formatPlural(returned.length, 'bucket')}`] : []),
    ...(tokens.length > 0 ? [`reserved tokens of ${formatPlural(tokens.length, 'bucket')}`] : []),
  ]
  return [
    `${process} ${dead}; returned ${formatList(parts)}:`,
    ...returned.map(each => `  ${heldText(each)}`),
    ...tokens.map(each => `  ${reservedLine(each)} reserved`),
  ]
}

export function releasedJson(id: string, {record, wasDead, returned, tokens}: Released): HoldersReleaseResult {
  const {host = null, pid = null} = record ?? {}
  return {holder: id, host, pid, wasDead, returned: returned.map(bucketJson), reserved: tokens.map(reservedJson)}
}

import {formatCount, formatPlural, formatSpan} from '../../core/text/text.js'
import type {InFlightLevel, SlotHolder} from '../../insight/holders/in-flight.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {HOLDER_PERIOD_MS, type HolderRecord} from '../../schema/holder-record.js'
import type {InFlightJson} from './results.js'

/** More would hide the largest ones. JSON has all. */
const MOST_SHOWN = 8

/** "gw-a (pid 991) 4, beat 4 s ago · gw-b (pid 77) 3, dead". */
export function slotHoldersText(holders: readonly SlotHolder[], nowMs: number): string {
  const shown = holders.slice(0, MOST_SHOWN).map(holder => {
    const {id, slots, record} = holder
    return `${record ? processText(record) : id} ${formatCount(slots)}, ${beatText(record, nowMs)}`
  })
  const more = holders.length - shown.length
  return [...shown, ...(more > 0 ? [`${formatPlural(more, 'more holder')}`] : [])].join(' · ')
}

function processText({id, host, pid}: HolderRecord): string {
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
  return levels.map(({holders, ...level}) => ({
    ...level,
    holders: holders.map(({id, slots, record}) => ({...holderJson(id, record), slots})),
  }))
}

function holderJson(id: string, record: HolderRecord | undefined) {
  const {host = null, pid = null, startedAt = null, beatAtMs, isDead = false} = record ?? {}
  return {id, host, pid, startedAt, beatAt: beatAtMs === undefined ? null : isoSeconds(beatAtMs), isDead}
}

import {formatCount, formatPlural} from '../../core/text/text.js'
import type {Verification} from '../../migrate/verify-migration.js'
import type {RecordDifference, Sample} from '../../migrate/walk/report.js'
import type {DifferenceSampleJson, OldItemCountsJson} from './results.js'

export function sampleLines(title: string, {count, shown}: Sample<RecordDifference>): string[] {
  if (count === 0) return []
  return ['', `${title}:`, ...shown.map(({key, reason}) => `  ${key}: ${reason}`), ...moreLines(count, shown.length)]
}

export function unknownLines({count, shown}: Sample<string>): string[] {
  if (count === 0) return []
  const title = `${formatPlural(count, 'item')} of unknown format; not changed:`
  return ['', title, ...shown.map(key => `  ${key}`), ...moreLines(count, shown.length)]
}

export function sampleJson({count, shown}: Sample<RecordDifference>): DifferenceSampleJson {
  return {count, shown: shown.map(({type, key, state, reason}) => ({type, key, state, reason}))}
}

const moreLines = (count: number, shown: number): string[] =>
  count > shown ? [`  and ${formatCount(count - shown)} more`] : []

export const isUnmovable = ({state}: RecordDifference): boolean => state === 'unmovable'

export const checkedItems = ({checked}: Verification): number => sumOf(checked)

export const sumOf = (counts: Partial<Record<string, number>>): number =>
  Object.values(counts).reduce<number>((sum, count) => sum + (count ?? 0), 0)

export const NO_OLD_ITEMS: OldItemCountsJson = {
  entity: 0,
  limits: 0,
  settings: 0,
  registry: 0,
  bucket: 0,
  usage: 0,
  audit: 0,
  version: 0,
}

/** Kinds of old records, in the order they are printed. */
export const KINDS = Object.keys(NO_OLD_ITEMS) as (keyof OldItemCountsJson)[]

export function byKind(counts: Partial<OldItemCountsJson>): OldItemCountsJson {
  return {...NO_OLD_ITEMS, ...counts}
}

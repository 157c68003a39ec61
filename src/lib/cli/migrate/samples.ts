import {formatCount, formatPlural} from '../../core/text.js'
import type {Verification} from '../../migrations/verify.js'
import type {RecordDifference, Sample} from '../../migrations/walk/report.js'
import {printableText} from '../output/text-table.js'

/** Records below a title, and how many more there are; no lines when there are none. */
export function sampleLines(title: string, {count, shown}: Sample<RecordDifference>): string[] {
  if (count === 0) return []
  return [
    '',
    `${title}:`,
    ...shown.map(({key, reason}) => `  ${printableText(key)}: ${reason}`),
    ...moreLines(count, shown.length),
  ]
}

/** Items of an unknown format. */
export function unknownLines({count, shown}: Sample<string>): string[] {
  if (count === 0) return []
  const title = `${formatPlural(count, 'item')} of unknown format; not changed:`
  return ['', title, ...shown.map(key => `  ${printableText(key)}`), ...moreLines(count, shown.length)]
}

/** Records in JSON. */
export function sampleJson({count, shown}: Sample<RecordDifference>) {
  return {count, shown: shown.map(({type, key, state, reason}) => ({type, key, state, reason}))}
}

const moreLines = (count: number, shown: number): string[] =>
  count > shown ? [`  and ${formatCount(count - shown)} more`] : []

/** Whether a record cannot be moved by any run. */
export const isUnmovable = ({state}: RecordDifference): boolean => state === 'unmovable'

/** Number of old items compared, of all kinds. */
export const checkedItems = ({checked}: Verification): number => sumOf(checked)

export const sumOf = (counts: Partial<Record<string, number>>): number =>
  Object.values(counts).reduce<number>((sum, count) => sum + (count ?? 0), 0)

/** Kinds of old records, in the order they are printed. */
export const KINDS = ['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version'] as const

/** Counts by kind; kinds without records are 0. */
export function byKind(counts: Partial<Record<(typeof KINDS)[number], number>>): Record<string, number> {
  return Object.fromEntries(KINDS.map(kind => [kind, counts[kind] ?? 0]))
}

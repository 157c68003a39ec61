import {formatCount, formatPlural} from '../../core/text.js'
import type {Verification} from '../../migrations/verify.js'
import type {RecordDifference, Sample} from '../../migrations/walk/report.js'
import {printableText} from '../output/text-table.js'

/** Records under a title, and how many more there are; nothing where there is none. */
export function sampleLines(title: string, {count, shown}: Sample<RecordDifference>): string[] {
  if (count === 0) return []
  return [
    '',
    `${title}:`,
    ...shown.map(({key, reason}) => `  ${printableText(key)}: ${reason}`),
    ...moreLines(count, shown.length),
  ]
}

/** Items that nobody knows. */
export function unknownLines({count, shown}: Sample<string>): string[] {
  if (count === 0) return []
  const title = `${formatPlural(count, 'item')} of no known shape; left alone:`
  return ['', title, ...shown.map(key => `  ${printableText(key)}`), ...moreLines(count, shown.length)]
}

/** Records for programs. */
export function sampleJson({count, shown}: Sample<RecordDifference>) {
  return {count, shown: shown.map(({type, key, state, reason}) => ({type, key, state, reason}))}
}

const moreLines = (count: number, shown: number): string[] =>
  count > shown ? [`  and ${formatCount(count - shown)} more`] : []

/** Whether no run can move it. */
export const isUnmovable = ({state}: RecordDifference): boolean => state === 'unmovable'

/** Old items compared, of all kinds. */
export const checkedItems = ({checked}: Verification): number => sumOf(checked)

export const sumOf = (counts: Partial<Record<string, number>>): number =>
  Object.values(counts).reduce<number>((sum, count) => sum + (count ?? 0), 0)

/** Kinds of old records, in the order in which they are told. */
export const KINDS = ['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version'] as const

/** Every kind, also those of which there is none. */
export function byKind(counts: Partial<Record<(typeof KINDS)[number], number>>): Record<string, number> {
  return Object.fromEntries(KINDS.map(kind => [kind, counts[kind] ?? 0]))
}

import {formatPlural} from '../../core/text.js'
import type {Side} from '../../migrations/resolve.js'
import type {ResolveAllResult} from '../../migrations/resolve-all.js'
import type {RecordDifference, Sample} from '../../migrations/walk/report.js'
import {nextLines} from '../output/facts.js'
import {sampleJson, sampleLines} from './samples.js'

/** What is about to be settled. */
export function conflictLines(conflicts: Sample<RecordDifference>): string[] {
  return sampleLines(`${formatPlural(conflicts.count, 'record')} changed in both places`, conflicts).slice(1)
}

/** How many conflicts were settled, and which were not. */
export function resolvedLines(stack: string, keep: Side, {settled, left}: ResolveAllResult): string[] {
  if (settled === 0 && left.count === 0) return [`Stack "${stack}": there were no conflicts`]
  const said = keep === 'old' ? 'old records have taken the place of the new ones' : 'the new records stay as they are'
  return [
    `Settled ${formatPlural(settled, 'conflict')} of stack "${stack}": ${said}`,
    ...sampleLines(`${formatPlural(left.count, 'record')} that others keep changing`, left),
    ...nextLines([[`zael migrate verify -s ${stack}`, 'Compare old and new, item by item']]),
  ]
}

/** One conflict, or all of them, for programs. */
export function resolvedJson(
  stack: string,
  key: string | null,
  kept: Side,
  {settled, left}: ResolveAllResult = {settled: 1, left: {count: 0, shown: []}},
) {
  return {stack, key, kept, settled, left: sampleJson(left)}
}

import {formatPlural} from '../../core/text/text.js'
import type {ResolveAllResult, Side} from '../../migrate/resolve.js'
import type {RecordDifference, Sample} from '../../migrate/walk/report.js'
import {nextLines} from '../output/facts.js'
import type {MigrateResolveResult} from './results.js'
import {sampleJson, sampleLines} from './samples.js'

export function conflictLines(conflicts: Sample<RecordDifference>): string[] {
  return sampleLines(`${formatPlural(conflicts.count, 'record')} changed in both layouts`, conflicts).slice(1)
}

export function resolvedLines(stack: string, keep: Side, {settled, left}: ResolveAllResult): string[] {
  if (settled === 0 && left.count === 0) return [`Stack "${stack}": there are no conflicts`]
  const outcome = keep === 'old' ? 'the old records replaced the new ones' : 'the new records are kept'
  return [
    `Resolved ${formatPlural(settled, 'conflict')} of stack "${stack}": ${outcome}`,
    ...sampleLines(`${formatPlural(left.count, 'record')} not resolved, because they keep changing`, left),
    ...nextLines([[`zael migrate verify -s ${stack}`, 'Compare old and new, item by item']]),
  ]
}

export function resolvedJson(
  stack: string,
  key: string | null,
  kept: Side,
  {settled, left}: ResolveAllResult = {settled: 1, left: {count: 0, shown: []}},
): MigrateResolveResult {
  return {stack, key, kept, settled, left: sampleJson(left)}
}

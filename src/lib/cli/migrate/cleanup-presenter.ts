import {formatPlural} from '../../core/text/text.js'
import type {CleanUpResult} from '../../migrate/cleanup.js'
import type {Verification} from '../../migrate/verify-migration.js'
import {nextLines} from '../output/facts.js'
import {plainTable} from '../output/text-table.js'
import type {MigrateCleanupResult} from './results.js'
import {byKind, checkedItems, isUnmovable, KINDS, sampleJson, sampleLines, sumOf, unknownLines} from './samples.js'

export function cleanedLines(stack: string, {deleted, left, unknown}: CleanUpResult): string[] {
  const total = sumOf(deleted)
  const records = formatPlural(left.count, 'record')
  const isStuck = left.count > 0 && left.shown.every(isUnmovable)
  return [
    total === 0 && left.count === 0
      ? `Stack "${stack}": there are no old items`
      : `Deleted ${formatPlural(total, 'old item')} of stack "${stack}"`,
    ...sampleLines(isStuck ? `${records} kept` : `${records} changed in the meantime and kept`, left),
    ...unknownLines(unknown),
    ...(left.count === 0 || isStuck
      ? []
      : nextLines([[`zael migrate run -s ${stack}`, 'Migrate the changes, then clean up again']])),
  ]
}

export function cleanUpQuestion(stack: string, verification: Verification): string {
  const items = `${formatPlural(checkedItems(verification), 'old item')} of stack "${stack}"`
  return `This permanently deletes ${items}${exceptText(verification)}`
}

const exceptText = ({unmovable}: Verification): string =>
  unmovable === 0 ? '' : `, except those of ${formatPlural(unmovable, 'record')} that cannot be moved`

export function cleanUpPlanLines(stack: string, verification: Verification): string[] {
  const {checked, differences, unknown} = verification
  const total = checkedItems(verification)
  if (total === 0) return [`Stack "${stack}" contains no items of older layouts`, ...unknownLines(unknown)]
  const kinds = KINDS.flatMap(kind => (checked[kind] ? [[kind, checked[kind]]] : []))
  return [
    `Stack "${stack}": a clean-up would delete ${formatPlural(total, 'old item')}${exceptText(verification)}`,
    '',
    ...plainTable([{header: 'RECORDS'}, {header: 'ITEMS'}], kinds, {header: true}),
    ...sampleLines(`${formatPlural(differences.count, 'record')} would be kept`, differences),
    ...unknownLines(unknown),
    ...nextLines([[`zael migrate cleanup -s ${stack}`, 'Delete them']]),
  ]
}

/** A clean-up in JSON; without a result, what it would do. */
export function cleanedJson(
  stack: string,
  verification: Verification,
  result: CleanUpResult | undefined,
): MigrateCleanupResult {
  const {deleted, left, unknown} = result ?? {
    deleted: {},
    left: verification.differences,
    unknown: verification.unknown,
  }
  return {
    stack,
    dryRun: result === undefined,
    old: byKind(verification.checked),
    deleted: byKind(deleted),
    left: sampleJson(left),
    unknown,
  }
}

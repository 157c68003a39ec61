import type {CleanUpResult} from '../migrations/cleanup.js'
import type {MigrationResult} from '../migrations/run.js'
import type {Decisions, Difference, Sample} from '../migrations/tally.js'
import type {Verification} from '../migrations/verify.js'
import {formatCount, nextLines} from './facts.js'
import {printable, textTable} from './text-table.js'

/** What a run did, what is left, and how to go on. */
export function runLines(stack: string, result: MigrationResult, width: number | undefined): string[] {
  const {steps, added, conflicts, unknown, decisions, finished, settled} = result
  const isIdle = finished && added.length === 0 && steps.every(({written}) => written === 0)
  const columns = ['STEP', 'STATE', 'CHECKED', 'WRITTEN', 'EXPIRED', 'CONFLICTS'].map(header => ({header}))
  const rows = steps.map(({id, state, checked, written, expired, conflicts: count}) => [
    id,
    state,
    checked,
    written,
    expired,
    count,
  ])
  return [
    isIdle ? `Stack "${stack}": there was nothing to do` : titleOf(stack, result),
    '',
    ...textTable(columns, rows, {header: true, width}),
    ...(added.length === 0 ? [] : ['', `Added to the table: ${added.join(', ')}`]),
    ...decisionLines(decisions),
    ...sampleLines(
      `${plural(conflicts.count, 'record')} changed in both places; choose with \`zael migrate resolve\``,
      conflicts,
    ),
    ...unknownLines(unknown),
    ...(settled
      ? []
      : ['', 'Old clients are still at work: the last pass found changes too. Run it again when they have stopped.']),
    ...nextLines(runNext(stack, result)),
  ]
}

function titleOf(stack: string, {finished, resumed}: MigrationResult): string {
  if (!finished) return `Stack "${stack}" is migrated up to the step asked for`
  return `Stack "${stack}" has today's layout${resumed ? '; this run went on where an earlier one stopped' : ''}`
}

function runNext(stack: string, {finished}: MigrationResult): [string, string][] {
  return finished
    ? [[`zael migrate verify -s ${stack}`, 'Compare old and new, item by item']]
    : [[`zael migrate run -s ${stack}`, 'Do the steps that are left']]
}

/** A run for programs. */
export function runJson({
  runId,
  resumed,
  finished,
  settled,
  steps,
  added,
  conflicts,
  unknown,
  decisions,
}: MigrationResult) {
  return {
    runId,
    resumed,
    finished,
    settled,
    steps: steps.map(({id, title, state, checked, written, expired, conflicts: count}) => ({
      id,
      title,
      state,
      checked,
      written,
      expired,
      conflicts: count,
    })),
    added,
    conflicts: sampleJson(conflicts),
    unknown,
    decisions,
  }
}

/** Whether old and new agree, and where not. */
export function verificationLines(stack: string, verification: Verification): string[] {
  const {clean, expired, differences, unknown, decisions} = verification
  const checked = checkedItems(verification)
  if (clean && checked === 0) return [`Stack "${stack}" holds no items of older layouts`, ...unknownLines(unknown)]
  const title = clean
    ? `Stack "${stack}": ${plural(checked, 'old item')} compared, every one is in its new place`
    : `Stack "${stack}": ${plural(checked, 'old item')} compared, ${plural(differences.count, 'difference')}`
  return [
    title,
    ...(expired === 0 ? [] : [`${plural(expired, 'old item')} have expired and need not be moved`]),
    ...decisionLines(decisions),
    ...sampleLines('Differences', differences),
    ...unknownLines(unknown),
    ...nextLines(verificationNext(stack, verification)),
  ]
}

function verificationNext(stack: string, {clean, differences}: Verification): [string, string][] {
  if (clean) return [[`zael migrate cleanup -s ${stack}`, 'Delete the old items']]
  const conflict = differences.shown.find(({state}) => state === 'conflict')
  const run: [string, string] = [`zael migrate run -s ${stack}`, 'Bring the new place up to date']
  return conflict
    ? [run, [`zael migrate resolve '${conflict.key}' --keep new -s ${stack}`, 'Settle a conflict']]
    : [run]
}

/** A comparison for programs. */
export function verificationJson(
  stack: string,
  {clean, checked, expired, differences, unknown, decisions}: Verification,
) {
  return {stack, clean, checked: byKind(checked), expired, differences: sampleJson(differences), unknown, decisions}
}

/** What was deleted, and what stayed. */
export function cleanedLines(stack: string, {deleted, left, unknown}: CleanUpResult): string[] {
  const total = Object.values(deleted).reduce((sum, count) => sum + count, 0)
  return [
    total === 0
      ? `Stack "${stack}": there were no old items`
      : `Deleted ${plural(total, 'old item')} of stack "${stack}"`,
    ...sampleLines(`${plural(left.count, 'record')} changed meanwhile and stayed`, left),
    ...unknownLines(unknown),
    ...(left.count === 0 ? [] : nextLines([[`zael migrate run -s ${stack}`, 'Catch up, then clean up again']])),
  ]
}

/** A clean-up for programs. */
export function cleanedJson(stack: string, {deleted, left, unknown}: CleanUpResult) {
  return {stack, deleted: byKind(deleted), left: sampleJson(left), unknown}
}

/** Old items compared, of all kinds. */
export function checkedItems({checked}: Verification): number {
  return Object.values(checked).reduce((sum, count) => sum + count, 0)
}

const KINDS = ['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version'] as const

/** Every kind, also those of which there is none. */
function byKind(counts: Partial<Record<(typeof KINDS)[number], number>>): Record<string, number> {
  return Object.fromEntries(KINDS.map(kind => [kind, counts[kind] ?? 0]))
}

function sampleJson({count, shown}: Sample<Difference>) {
  return {count, shown: shown.map(({type, key, state, says}) => ({type, key, state, reason: says}))}
}

function decisionLines({untangled, keptAsLabelled, superseded}: Decisions): string[] {
  const said = [
    ...(untangled > 0
      ? [`${plural(untangled, 'day')} of usage: the first hour was counted with the day, and is told apart`]
      : []),
    ...(keptAsLabelled > 0
      ? [`${plural(keptAsLabelled, 'day')} of usage: the first hour was counted with the day, and cannot be told apart`]
      : []),
    ...(superseded > 0 ? [`${plural(superseded, 'bucket')} in several old places: the one used last counts`] : []),
  ]
  return said.length === 0 ? [] : ['', ...said]
}

function sampleLines(title: string, {count, shown}: Sample<Difference>): string[] {
  if (count === 0) return []
  return [
    '',
    `${title}:`,
    ...shown.map(({key, says}) => `  ${printable(key)}: ${says}`),
    ...moreLines(count, shown.length),
  ]
}

function unknownLines({count, shown}: Sample<string>): string[] {
  if (count === 0) return []
  const title = `${plural(count, 'item')} of no known shape; left alone:`
  return ['', title, ...shown.map(key => `  ${printable(key)}`), ...moreLines(count, shown.length)]
}

const moreLines = (count: number, shown: number): string[] =>
  count > shown ? [`  and ${formatCount(count - shown)} more`] : []

const plural = (count: number, what: string): string => `${formatCount(count)} ${what}${count === 1 ? '' : 's'}`

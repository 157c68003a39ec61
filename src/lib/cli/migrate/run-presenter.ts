import {formatCount, formatPlural} from '../../core/text.js'
import type {MigrationResult} from '../../migrations/run.js'
import type {Verification} from '../../migrations/verify.js'
import type {Decisions, RecordDifference, Sample} from '../../migrations/walk/report.js'
import {nextLines} from '../output/facts.js'
import {textTable} from '../output/text-table.js'
import {byKind, checkedItems, isUnmovable, sampleJson, sampleLines, unknownLines} from './samples.js'

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
    ...copiedAgainLines(result),
    ...sampleLines(leftTitle(conflicts), conflicts),
    ...unknownLines(unknown),
    ...(settled
      ? []
      : ['', 'Old clients are still at work: the last pass found changes too. Run it again when they have stopped.']),
    ...nextLines(runNext(stack, result)),
  ]
}

/** What a run leaves to people: to choose, or to look at what no run can move. */
function leftTitle(conflicts: Sample<RecordDifference>): string {
  const records = formatPlural(conflicts.count, 'record')
  if (!conflicts.shown.some(isUnmovable))
    return `${records} changed in both places; choose with \`zael migrate resolve\``
  return conflicts.shown.every(isUnmovable) ? `${records} not moved` : `${records} not moved, or changed in both places`
}

/** An old item without a new one looks the same whether it is new itself or somebody deleted the other. */
function copiedAgainLines({copiedAgain}: MigrationResult): string[] {
  const kinds = Object.entries(copiedAgain).map(([kind, count]) => `${kind} ${formatCount(count)}`)
  if (kinds.length === 0) return []
  return [
    '',
    `Not in the new place although an earlier run had finished, and copied: ${kinds.join(', ')}`,
    'Old clients made them since, or clients of today deleted them: those have to be deleted in the old place too.',
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
  copiedAgain,
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
    decisions: decisionsJson(decisions),
    copiedAgain: byKind(copiedAgain),
  }
}

/** Whether old and new agree, and where not. */
export function verificationLines(stack: string, verification: Verification): string[] {
  const {clean, expired, differences, unknown, decisions} = verification
  const checked = checkedItems(verification)
  if (clean && checked === 0) return [`Stack "${stack}" holds no items of older layouts`, ...unknownLines(unknown)]
  const title = clean
    ? `Stack "${stack}": ${formatPlural(checked, 'old item')} compared, every one is in its new place`
    : `Stack "${stack}": ${formatPlural(checked, 'old item')} compared, ${formatPlural(differences.count, 'difference')}`
  return [
    title,
    ...(expired === 0 ? [] : [`${formatPlural(expired, 'old item')} have expired and need not be moved`]),
    ...decisionLines(decisions),
    ...sampleLines('Differences', differences),
    ...unknownLines(unknown),
    ...nextLines(verificationNext(stack, verification)),
  ]
}

function verificationNext(stack: string, {clean, differences, unmovable}: Verification): [string, string][] {
  const {count, shown} = differences
  const more: [string, string][] =
    count > shown.length ? [[`zael migrate verify --all -s ${stack}`, 'List them all']] : []
  if (clean) return [[`zael migrate cleanup -s ${stack}`, 'Delete the old items']]
  if (count === unmovable) return [...more, [`zael migrate cleanup -s ${stack}`, 'Delete the other old items']]
  const conflict = shown.find(({state}) => state === 'conflict')
  const settle = (key: string): [string, string] => [
    `zael migrate resolve '${key}' --keep new -s ${stack}`,
    'Settle a conflict',
  ]
  const run: [string, string] = [`zael migrate run -s ${stack}`, 'Bring the new place up to date']
  return [...more, run, ...(conflict ? [settle(conflict.key)] : [])]
}

/** A comparison for programs. */
export function verificationJson(
  stack: string,
  {clean, checked, expired, differences, unmovable, unknown, decisions}: Verification,
) {
  const differing = {differences: sampleJson(differences), unmovable}
  return {stack, clean, checked: byKind(checked), expired, ...differing, unknown, decisions: decisionsJson(decisions)}
}

/** `untangled` is part of the JSON output. */
const decisionsJson = ({split, ...rest}: Decisions) => ({untangled: split, ...rest})

function decisionLines({split, keptAsLabelled, superseded}: Decisions): string[] {
  const said = [
    ...(split > 0
      ? [`${formatPlural(split, 'day')} of usage: the first hour was counted with the day, and is told apart`]
      : []),
    ...(keptAsLabelled > 0
      ? [
          `${formatPlural(keptAsLabelled, 'day')} of usage: the first hour may hold the whole day, and is kept as it calls itself`,
        ]
      : []),
    ...(superseded > 0
      ? [`${formatPlural(superseded, 'bucket')} in several old places: the one used last counts`]
      : []),
  ]
  return said.length === 0 ? [] : ['', ...said]
}

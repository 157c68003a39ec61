import {formatCount, formatPlural} from '../../core/text/text.js'
import type {MigrationResult} from '../../migrate/run.js'
import type {Verification} from '../../migrate/verify-migration.js'
import type {Decisions, RecordDifference, Sample} from '../../migrate/walk/report.js'
import {nextLines} from '../output/facts.js'
import {textTable} from '../output/text-table.js'
import {
  limitlessJson,
  limitlessLines,
  limitsWrittenJson,
  limitsWrittenLines,
  writeLimitsCommand,
} from './limitless-presenter.js'
import type {MigrateRunResult, MigrateVerifyResult, UsageDecisionsJson} from './results.js'
import {byKind, checkedItems, isUnmovable, sampleJson, sampleLines, unknownLines} from './samples.js'

export async function runLines(stack: string, result: MigrationResult, width: number | undefined): Promise<string[]> {
  const {steps, added, conflicts, unknown, decisions, finished, settled, limitsWritten, limitless} = result
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
    isIdle ? `Stack "${stack}": nothing to do` : titleOf(stack, result),
    '',
    ...(await textTable(columns, rows, {header: true, width})),
    ...(added.length === 0 ? [] : ['', `Added to the table: ${added.join(', ')}`]),
    ...limitsWrittenLines(limitsWritten),
    ...decisionLines(decisions),
    ...copiedAgainLines(result),
    ...sampleLines(leftTitle(conflicts), conflicts),
    ...unknownLines(unknown),
    ...(await limitlessLines(limitless, width)),
    ...(settled
      ? []
      : [
          '',
          'Old clients are still writing: the last pass found changes too. Run the command again when they have stopped.',
        ]),
    ...nextLines(runNext(stack, result)),
  ]
}

function leftTitle(conflicts: Sample<RecordDifference>): string {
  const records = formatPlural(conflicts.count, 'record')
  if (!conflicts.shown.some(isUnmovable))
    return `${records} changed in both layouts; resolve with \`zael migrate resolve\``
  return conflicts.shown.every(isUnmovable)
    ? `${records} not moved`
    : `${records} not moved, or changed in both layouts`
}

/** An old item without a new one: created by an old client since, or its new record was deleted. */
function copiedAgainLines({copiedAgain}: MigrationResult): string[] {
  const kinds = Object.entries(copiedAgain).map(([kind, count]) => `${kind} ${formatCount(count)}`)
  if (kinds.length === 0) return []
  return [
    '',
    `Copied again, although an earlier run had finished: ${kinds.join(', ')}`,
    'Old clients created them since then, or new clients deleted them; in the latter case delete the old items too.',
  ]
}

function titleOf(stack: string, {finished, resumed}: MigrationResult): string {
  if (!finished) return `Stack "${stack}" is migrated up to the requested step`
  return `Stack "${stack}" has the current layout${resumed ? '; this run continued an earlier one' : ''}`
}

const writeLimits = (stack: string): [string, string] => [
  writeLimitsCommand(stack),
  'Write the limits that the buckets have',
]

function runNext(stack: string, {finished, limitless}: MigrationResult): [string, string][] {
  if (finished && limitless.buckets > 0) return [writeLimits(stack)]
  return finished
    ? [[`zael migrate verify -s ${stack}`, 'Compare old and new, item by item']]
    : [[`zael migrate run -s ${stack}`, 'Run the remaining steps']]
}

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
  limitsWritten,
  limitless,
}: MigrationResult): NonNullable<MigrateRunResult['result']> {
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
    limitsWritten: limitsWrittenJson(limitsWritten),
    limitless: limitlessJson(limitless),
  }
}

export async function verificationLines(
  stack: string,
  verification: Verification,
  width: number | undefined,
): Promise<string[]> {
  const {clean, expired, differences, unknown, decisions} = verification
  const limitless = await limitlessLines(verification.limitless, width)
  const checked = checkedItems(verification)
  if (clean && checked === 0) {
    const title = `Stack "${stack}" contains no items of older layouts`
    const next = limitless.length === 0 ? [] : nextLines([writeLimits(stack)])
    return [title, ...unknownLines(unknown), ...limitless, ...next]
  }
  const title = clean
    ? `Stack "${stack}": ${formatPlural(checked, 'old item')} compared, all are in the new layout`
    : `Stack "${stack}": ${formatPlural(checked, 'old item')} compared, ${formatPlural(differences.count, 'difference')}`
  return [
    title,
    ...(expired === 0 ? [] : [`${formatPlural(expired, 'old item')} expired, not moved`]),
    ...decisionLines(decisions),
    ...sampleLines('Differences', differences),
    ...unknownLines(unknown),
    ...limitless,
    ...nextLines(verificationNext(stack, verification)),
  ]
}

function verificationNext(stack: string, verification: Verification): [string, string][] {
  const {clean, differences, unmovable, limitless} = verification
  const {count, shown} = differences
  if (clean && limitless.buckets > 0) return [writeLimits(stack)]
  const more: [string, string][] =
    count > shown.length ? [[`zael migrate verify --all -s ${stack}`, 'List them all']] : []
  if (clean) return [[`zael migrate cleanup -s ${stack}`, 'Delete the old items']]
  if (count === unmovable) return [...more, [`zael migrate cleanup -s ${stack}`, 'Delete the other old items']]
  const conflict = shown.find(({state}) => state === 'conflict')
  const resolve = (key: string): [string, string] => [
    `zael migrate resolve '${key}' --keep new -s ${stack}`,
    'Resolve a conflict',
  ]
  const run: [string, string] = [`zael migrate run -s ${stack}`, 'Migrate the differences']
  return [...more, run, ...(conflict ? [resolve(conflict.key)] : [])]
}

export function verificationJson(
  stack: string,
  {clean, checked, expired, differences, unmovable, unknown, decisions, limitless}: Verification,
): MigrateVerifyResult {
  return {
    stack,
    clean,
    checked: byKind(checked),
    expired,
    differences: sampleJson(differences),
    unmovable,
    unknown,
    decisions: decisionsJson(decisions),
    limitless: limitlessJson(limitless),
  }
}

/** `untangled` is part of the JSON output. */
const decisionsJson = ({split, keptAsLabelled, superseded}: Decisions): UsageDecisionsJson => ({
  untangled: split,
  keptAsLabelled,
  superseded,
})

function decisionLines({split, keptAsLabelled, superseded}: Decisions): string[] {
  const lines = [
    ...(split > 0
      ? [`${formatPlural(split, 'day')} of usage: the first hour also held the whole day; they are separated now`]
      : []),
    ...(keptAsLabelled > 0
      ? [
          `${formatPlural(keptAsLabelled, 'day')} of usage: the first hour may hold the whole day; it is kept as it is labelled`,
        ]
      : []),
    ...(superseded > 0
      ? [`${formatPlural(superseded, 'bucket')} in several old layouts: the one used last is kept`]
      : []),
  ]
  return lines.length === 0 ? [] : ['', ...lines]
}

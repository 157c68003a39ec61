import {formatCount, formatPlural, shellWord} from '../../core/text/text.js'
import type {CleanUpResult} from '../../migrate/cleanup.js'
import type {ResolveAllResult, Side} from '../../migrate/resolve.js'
import type {MigrationResult} from '../../migrate/run.js'
import type {Verification} from '../../migrate/verify-migration.js'
import type {Decisions, RecordDifference, Sample} from '../../migrate/walk/report.js'
import {type NextCommand, nextLines, plainTable, textTable} from '../output/text-table.js'
import {limitlessJson, limitlessLines, limitsWrittenLines} from './limitless-presenter.js'
import type {
  MigrateCleanupResult,
  MigrateResolveResult,
  MigrateRunResult,
  MigrateVerifyResult,
  OldItemCountsJson,
  UsageDecisionsJson,
} from './results.js'

export const OLD_KINDS = {
  entity: 'entities',
  limits: 'limits',
  settings: 'settings',
  registry: 'registries',
  bucket: 'buckets',
  usage: 'usage',
  audit: 'audit events',
  version: 'version record',
} as const

export const NO_OLD_ITEMS = Object.fromEntries(
  Object.keys(OLD_KINDS).map(kind => [kind, 0]),
) as unknown as OldItemCountsJson

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
      : ['', 'Old clients are still writing: the last pass found changes. Run the command again after they stop.']),
    ...nextLines(runNext(stack, result)),
  ]
}

function leftTitle(conflicts: Sample<RecordDifference>): string {
  const records = formatPlural(conflicts.count, 'record')
  if (!conflicts.shown.some(isUnmovable))
    return `${records} changed in both layouts. Resolve with \`zael migrate resolve\``
  return conflicts.shown.every(isUnmovable)
    ? `${records} not migrated`
    : `${records} not migrated, or changed in both layouts`
}

function copiedAgainLines({copiedAgain}: MigrationResult): string[] {
  const kinds = Object.entries(copiedAgain).map(([kind, count]) => `${kind} ${formatCount(count)}`)
  if (kinds.length === 0) return []
  return [
    '',
    `Copied again after an earlier complete run: ${kinds.join(', ')}`,
    'Since then, old clients created these records, or new clients deleted them. If new clients deleted them, delete the old items too.',
  ]
}

function titleOf(stack: string, {finished, resumed}: MigrationResult): string {
  if (!finished) return `Stack "${stack}" is migrated up to the requested step`
  return `Stack "${stack}" has the current layout${resumed ? '; this run resumed an interrupted run' : ''}`
}

export const writeLimits = (stack: string): NextCommand => [
  `zael migrate run -s ${stack} --limits-from-buckets`,
  'write limits from the buckets',
]

function runNext(stack: string, {finished, limitless}: MigrationResult): NextCommand[] {
  if (finished && limitless.buckets > 0) return [writeLimits(stack)]
  return finished
    ? [[`zael migrate verify -s ${stack}`, 'compare every old item with its new one']]
    : [[`zael migrate run -s ${stack}`, 'run the remaining steps']]
}

export function runJson(result: MigrationResult): NonNullable<MigrateRunResult['result']> {
  return {
    ...result,
    decisions: decisionsJson(result.decisions),
    copiedAgain: byKind(result.copiedAgain),
    limitsWritten: result.limitsWritten ?? null,
    limitless: limitlessJson(result.limitless),
  }
}

export async function verificationLines(
  stack: string,
  verification: Verification,
  width: number | undefined,
): Promise<string[]> {
  const {clean, expired, differences, unknown, decisions} = verification
  const limitless = await limitlessLines(verification.limitless, width)
  const checked = sumOf(verification.checked)
  if (clean && checked === 0) {
    const title = `Stack "${stack}" contains no items of older layouts`
    const next = limitless.length === 0 ? [] : nextLines([writeLimits(stack)])
    return [title, ...unknownLines(unknown), ...limitless, ...next]
  }
  const title = clean
    ? `Stack "${stack}": ${formatPlural(checked, 'old item')} compared, all migrated`
    : `Stack "${stack}": ${formatPlural(checked, 'old item')} compared, ${formatPlural(differences.count, 'difference')}`
  return [
    title,
    ...(expired === 0 ? [] : [`${formatPlural(expired, 'old item')} expired and not migrated`]),
    ...decisionLines(decisions),
    ...sampleLines('Differences', differences),
    ...unknownLines(unknown),
    ...limitless,
    ...nextLines(verificationNext(stack, verification)),
  ]
}

function verificationNext(stack: string, verification: Verification): NextCommand[] {
  const {clean, differences, unmovable, limitless} = verification
  const {count, shown} = differences
  if (clean && limitless.buckets > 0) return [writeLimits(stack)]
  const more: NextCommand[] =
    count > shown.length ? [[`zael migrate verify --all -s ${stack}`, 'list all differences']] : []
  if (clean) return [[`zael migrate cleanup -s ${stack}`, 'delete the old items']]
  if (count === unmovable) return [...more, [`zael migrate cleanup -s ${stack}`, 'delete the other old items']]
  const conflict = shown.find(({state}) => state === 'conflict')
  const resolve = (key: string): NextCommand => [
    `zael migrate resolve ${shellWord(key)} --keep new -s ${stack}`,
    'resolve a conflict',
  ]
  const run: NextCommand = [`zael migrate run -s ${stack}`, 'migrate the differences']
  return [...more, run, ...(conflict ? [resolve(conflict.key)] : [])]
}

export function verificationJson(stack: string, verification: Verification): MigrateVerifyResult {
  return {
    stack,
    ...verification,
    checked: byKind(verification.checked),
    decisions: decisionsJson(verification.decisions),
    limitless: limitlessJson(verification.limitless),
  }
}

/** `untangled` is a fixed name in the JSON output. */
const decisionsJson = ({split, keptAsLabelled, superseded}: Decisions): UsageDecisionsJson => ({
  untangled: split,
  keptAsLabelled,
  superseded,
})

function decisionLines({split, keptAsLabelled, superseded}: Decisions): string[] {
  const lines = [
    ...(split > 0 ? [`${formatPlural(split, 'day')} of usage: separated the first hour from the whole day`] : []),
    ...(keptAsLabelled > 0
      ? [`${formatPlural(keptAsLabelled, 'day')} of usage: the first hour may include the whole day; copied unchanged`]
      : []),
    ...(superseded > 0 ? [`${formatPlural(superseded, 'bucket')} in several old layouts: kept the last used one`] : []),
  ]
  return lines.length === 0 ? [] : ['', ...lines]
}

export function cleanedLines(stack: string, {deleted, left, unknown}: CleanUpResult): string[] {
  const total = sumOf(deleted)
  const records = formatPlural(left.count, 'record')
  const isStuck = left.count > 0 && left.shown.every(isUnmovable)
  return [
    total === 0 && left.count === 0
      ? `Stack "${stack}" has no old items`
      : `Deleted ${formatPlural(total, 'old item')} of stack "${stack}"`,
    ...sampleLines(isStuck ? `${records} kept` : `${records} changed during the cleanup and kept`, left),
    ...unknownLines(unknown),
    ...(left.count === 0 || isStuck
      ? []
      : nextLines([[`zael migrate run -s ${stack}`, 'migrate the changes, then clean up again']])),
  ]
}

export function cleanUpQuestion(stack: string, verification: Verification): string {
  const items = `${formatPlural(sumOf(verification.checked), 'old item')} of stack "${stack}"`
  return `This permanently deletes ${items}${exceptText(verification)}`
}

const exceptText = ({unmovable}: Verification): string =>
  unmovable === 0 ? '' : `, except the items of ${formatPlural(unmovable, 'record')} that cannot be migrated`

export function cleanUpPlanLines(stack: string, verification: Verification): string[] {
  const {checked, differences, unknown} = verification
  const total = sumOf(checked)
  if (total === 0) return [`Stack "${stack}" contains no items of older layouts`, ...unknownLines(unknown)]
  const kinds = Object.entries(byKind(checked)).filter(([, count]) => count > 0)
  return [
    `Stack "${stack}": cleanup would delete ${formatPlural(total, 'old item')}${exceptText(verification)}`,
    '',
    ...plainTable([{header: 'RECORDS'}, {header: 'ITEMS'}], kinds, {header: true}),
    ...sampleLines(`${formatPlural(differences.count, 'record')} would be kept`, differences),
    ...unknownLines(unknown),
    ...nextLines([[`zael migrate cleanup -s ${stack}`, 'delete the old items']]),
  ]
}

export function cleanedJson(
  stack: string,
  verification: Verification,
  result: CleanUpResult | undefined,
): MigrateCleanupResult {
  const {deleted, left, unknown} = result ?? {...verification, deleted: {}, left: verification.differences}
  const old = byKind(verification.checked)
  return {stack, dryRun: result === undefined, old, deleted: byKind(deleted), left, unknown}
}

export function conflictLines(conflicts: Sample<RecordDifference>): string[] {
  return sampleLines(`${formatPlural(conflicts.count, 'record')} changed in both layouts`, conflicts).slice(1)
}

export function resolvedLines(stack: string, keep: Side, {settled, left}: ResolveAllResult): string[] {
  if (settled === 0 && left.count === 0) return [`Stack "${stack}" has no conflicts`]
  const outcome = keep === 'old' ? 'the old records replaced the new ones' : 'the new records are kept'
  return [
    `Resolved ${formatPlural(settled, 'conflict')} of stack "${stack}": ${outcome}`,
    ...sampleLines(`${formatPlural(left.count, 'record')} not resolved, because they keep changing`, left),
    ...nextLines([[`zael migrate verify -s ${stack}`, 'compare every old item with its new one']]),
  ]
}

export function resolvedJson(
  stack: string,
  key: string | null,
  kept: Side,
  {settled, left}: ResolveAllResult = {settled: 1, left: {count: 0, shown: []}},
): MigrateResolveResult {
  return {stack, key, kept, settled, left}
}

function sampleLines(title: string, {count, shown}: Sample<RecordDifference>): string[] {
  if (count === 0) return []
  return ['', `${title}:`, ...shown.map(({key, reason}) => `  ${key}: ${reason}`), ...moreLines(count, shown.length)]
}

function unknownLines({count, shown}: Sample<string>): string[] {
  if (count === 0) return []
  const title = `${formatPlural(count, 'item')} of unknown format (unchanged):`
  return ['', title, ...shown.map(key => `  ${key}`), ...moreLines(count, shown.length)]
}

const moreLines = (count: number, shown: number): string[] =>
  count > shown ? [`  and ${formatCount(count - shown)} more`] : []

const isUnmovable = ({state}: RecordDifference): boolean => state === 'unmovable'

const sumOf = (counts: Partial<Record<string, number>>): number =>
  Object.values(counts).reduce<number>((sum, count) => sum + (count ?? 0), 0)

function byKind(counts: Partial<OldItemCountsJson>): OldItemCountsJson {
  return {...NO_OLD_ITEMS, ...counts}
}

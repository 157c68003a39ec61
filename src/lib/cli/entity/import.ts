import {InvalidInput, ZaelError} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {formatCount, formatList, formatPlural, formatSome} from '../../core/text/text.js'
import type {Preview} from '../../insight/preview/preview.js'
import type {EntityFileFormat, ListedEntities} from '../../manifest/entity-file.js'
import type {ImportPlan, ImportResult, KeptCopy} from '../../manifest/import.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {levelOf} from '../../schema/config-record.js'
import {scopeWords} from '../base/scope.js'
import {limitJson, scopeJson} from '../limits/json.js'
import {fieldChanges, scopeKindChanges} from '../limits/presenter.js'
import {sideEffectLines, sideEffects, sideEffectsJson} from '../limits/preview.js'
import {EXIT} from '../output/exit.js'
import {listenForEnd} from '../output/interrupt.js'
import {ProgressLine, withProgress} from '../output/progress.js'
import type {EntityImportResult} from './results.js'

const MAX_BYTES = 64 * 2 ** 20

const MOST_SHOWN = 10

const MOST_NAMED = 5

export async function readEntityFile(file: string, given: EntityFileFormat | undefined): Promise<ListedEntities> {
  const ending = /\.(csv|jsonl|ndjson)$/i.exec(file)?.[1]?.toLowerCase()
  const format = given ?? (ending === 'csv' ? 'csv' : ending === undefined ? undefined : 'jsonl')
  if (format === undefined) {
    throw new InvalidInput('import.format', `The format of ${file} is unknown.`, {
      hint: 'Name the file .csv or .jsonl, or add --format csv or --format jsonl.',
    })
  }
  const [{readText}, {parseEntityFile}] = await Promise.all([
    import('../../files/read-document.js'),
    import('../../manifest/entity-file.js'),
  ])
  const code = 'import.file'
  const hint = 'See `zael entity import --help` for the columns.'
  const text = await readText({file, code, maxBytes: MAX_BYTES, hint})
  if (text === undefined) throw new ZaelError('notFound', code, `File ${file} does not exist.`, {hint, details: {file}})
  return parseEntityFile(text, format, {file})
}

export async function planWithProgress(namespace: NamespaceRepository, listed: ListedEntities): Promise<ImportPlan> {
  const {planImport} = await import('../../manifest/import.js')
  return withProgress(
    (line, signal) => {
      return planImport(namespace, listed, {signal, onProgress: done => line.bar('Comparing', done, listed.size)})
    },
    () => new ZaelError('interrupted', 'import.interrupted', 'Interrupted; nothing was written.'),
  )
}

interface ImportRun {
  readonly result: ImportResult
  readonly isInterrupted: boolean
  readonly exitCode: number
}

/** The first signal lets changes in flight finish; a second one ends the process. */
export async function importWithProgress(namespace: NamespaceRepository, plan: ImportPlan): Promise<ImportRun> {
  const {runImport} = await import('../../manifest/import.js')
  const line = new ProgressLine(process.stderr)
  const end = listenForEnd()
  try {
    const result = await runImport(namespace, plan, {
      signal: end.signal,
      onProgress: done => line.bar('Importing', done, changesIn(plan)),
    })
    const {failures, left} = result
    const isInterrupted = end.signal.aborted && left > 0
    const isFailed = failures.length > 0 || left > 0
    return {result, isInterrupted, exitCode: isInterrupted ? await end.reached : isFailed ? EXIT.failed : EXIT.ok}
  } finally {
    end.stop()
    line.clear()
  }
}

const changesIn = ({entities, limits}: ImportPlan): number => entities.length + limits.length

const limitsText = (count: number, rest = ''): string =>
  `${formatPlural(count, 'set of limits', 'sets of limits')}${rest} (one per entity and resource)`

const actions = ({entities}: ImportPlan, action: 'create' | 'update') =>
  entities.filter(change => change.action === action)

export function importPlanLines(file: string, plan: ImportPlan, preview: Preview): string[] {
  const [create, update] = [actions(plan, 'create').length, actions(plan, 'update')]
  const shown = update.slice(0, MOST_SHOWN).map(change => `  ~ ${change.entity}: ${fieldChanges(change).join(', ')}`)
  const more = update.length - shown.length
  return [
    `${file}: ${formatPlural(plan.listed, 'entity', 'entities')}; ${formatCount(create)} to create, ${formatCount(update.length)} to update, ` +
      `${limitsText(plan.limits.length, ' to write')}, ${formatPlural(plan.unchanged, 'entity', 'entities')} unchanged`,
    ...shown,
    ...(more > 0 ? [`  … and ${formatCount(more)} more updates`] : []),
    ...keptLines('Temporary copies that this makes permanent', plannedKept(plan)),
    ...plannedKinds(plan).map(kinds => `Changes ${kinds}`),
    ...sideEffectLines(preview),
  ]
}

const plannedKinds = ({limits}: ImportPlan): string[] =>
  scopeKindChanges(limits.map(({scope, before, limits: after}) => ({scope, before, after})))

const plannedKept = ({limits}: ImportPlan): KeptCopy[] =>
  limits.flatMap(({scope, kept}) => (kept.length > 0 ? [{scope, limits: kept}] : []))

function keptLines(title: string, kept: readonly KeptCopy[]): string[] {
  if (kept.length === 0) return []
  const more = kept.length - MOST_SHOWN
  return [
    `${title}: limits of ${formatPlural(kept.length, 'entity and resource', 'entities and resources')}`,
    ...kept
      .slice(0, MOST_SHOWN)
      .map(({scope, limits}) => `  ! ${scopeWords(scope)}: ${limits.map(formatLimit).join(' ')}`),
    ...(more > 0 ? [`  … and ${formatCount(more)} more`] : []),
  ]
}

/** `undefined` when the import only adds. */
export function importQuestion(plan: ImportPlan, preview: Preview): string | undefined {
  const updates = actions(plan, 'update').length
  const limits = plan.limits.filter(({before}) => before.length > 0).length
  const kept = plannedKept(plan).length
  const {lost, altered} = sideEffects(preview)
  const parts = [
    ...(updates + limits > 0
      ? [`changes ${formatPlural(updates, 'entity', 'entities')} and ${limitsText(limits, ' already set')}`]
      : []),
    ...plannedKinds(plan).map(kinds => `changes ${kinds}`),
    ...(kept > 0 ? [`makes ${formatPlural(kept, 'temporary copy', 'temporary copies')} of limits permanent`] : []),
    ...lost,
    ...altered,
  ]
  return parts.length === 0 ? undefined : `This ${formatList(parts)}`
}

export function importedLines(plan: ImportPlan, {result, isInterrupted}: ImportRun): string[] {
  const {created, updated, limitsSet, kept, failures, left} = result
  const made = created + updated + limitsSet
  const stopped = isInterrupted
    ? `Stopped after ${formatCount(made)} of ${formatPlural(changesIn(plan), 'change')}. `
    : ''
  return [
    `Created ${formatCount(created)}, updated ${formatCount(updated)}, wrote ${limitsText(limitsSet)}`,
    ...keptLines('Temporary copies that are now permanent', kept),
    ...failureLines(failures),
    ...(failures.length > 0 || left > 0
      ? [
          `${stopped}${formatCount(failures.length)} failed, ${formatCount(left)} not tried. ` +
            'Run the command again to continue.',
        ]
      : []),
  ]
}

/** Equal errors once. */
function failureLines(failures: ImportResult['failures']): string[] {
  const groups = [...groupBy(failures, ({error}) => error.message)]
  const rest = groups.slice(MOST_SHOWN).flatMap(([, same]) => same).length
  return [
    ...groups.slice(0, MOST_SHOWN).map(([message, same]) => {
      const entities = same.map(({entity}) => entity)
      return `  ${formatSome(entities, MOST_NAMED)}: ${message}`
    }),
    ...(rest > 0 ? [`  … and ${formatCount(rest)} more failures`] : []),
  ]
}

export function importJson(
  file: string,
  plan: ImportPlan,
  preview: Preview,
  run: ImportRun | undefined,
): EntityImportResult {
  const result = run?.result
  return {
    file,
    dryRun: result === undefined,
    listed: plan.listed,
    create: actions(plan, 'create').length,
    update: actions(plan, 'update').length,
    limits: plan.limits.length,
    unchanged: plan.unchanged,
    kept: plannedKept(plan).map(keptJson),
    ...sideEffectsJson(preview),
    result: result
      ? {
          outcome: run?.isInterrupted ? 'interrupted' : run?.exitCode === EXIT.ok ? 'complete' : 'failed',
          ...result,
          kept: result.kept.map(keptJson),
          failures: result.failures.map(({entity, error: {code, message}}) => ({entity, code, message})),
        }
      : null,
  }
}

const keptJson = ({scope, limits}: KeptCopy): EntityImportResult['kept'][number] => ({
  scope: scopeJson(scope),
  limits: limits.map(limitJson),
})

/** An entity's first default limits start from the system's and hide resource limits. Read-only, bounded. */
export async function previewImport(
  namespace: NamespaceRepository,
  {limits}: ImportPlan,
  nowMs: number,
): Promise<Preview> {
  const {previewChanges} = await import('../../insight/preview/preview.js')
  const hiding = limits.filter(({scope, before}) => levelOf(scope) === 'entity_default' && before.length === 0)
  const [system] = hiding.length === 0 ? [] : await namespace.configs.readableLimits([{level: 'system'}])
  const changes = hiding.map(({scope, limits: listed, before}) => {
    const named = listed.map(({name}) => name)
    const copied = system?.limits.filter(({name}) => !named.includes(name)) ?? []
    return {scope, before, after: [...copied, ...listed], named}
  })
  return previewChanges(namespace, changes, nowMs)
}

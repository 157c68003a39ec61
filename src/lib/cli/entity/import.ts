import {InvalidInput, ZaelError} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {kindNameOf, type Limit} from '../../core/limits/limit.js'
import {formatLimit, hasSameText, type LimitChange, limitChanges} from '../../core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {firstItems, formatCount, formatList, formatPlural, formatSome} from '../../core/text/text.js'
import type {EntityFileFormat, ListedEntities} from '../../manifest/entity-file.js'
import type {ImportPlan, ImportResult, KeptCopy, ListedLimits} from '../../manifest/import.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type ConfigScope, levelOf} from '../../schema/config-record.js'
import {scopeWords} from '../base/scope.js'
import {limitChangeJson, limitJson, scopeJson} from '../limits/json.js'
import {changeText, confirmationLine, fieldChanges, firstLines, scopeKindChanges} from '../limits/presenter.js'
import {
  type FilePreview,
  planQuestion,
  quotaLines,
  sideEffectLines,
  sideEffects,
  sideEffectsJson,
} from '../limits/preview.js'
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

/** `where`: flags for suggested commands. */
export function importPlanLines(
  file: string,
  plan: ImportPlan,
  preview: ImportPreview,
  {dryRun, where}: {readonly dryRun: boolean; readonly where: string},
): string[] {
  const question = importQuestion(plan, preview)
  const [create, update] = [actions(plan, 'create').length, actions(plan, 'update')]
  const updates = update.map(change => `  ~ ${change.entity}: ${fieldChanges(change).join(', ')}`)
  return [
    `${file}: ${formatPlural(plan.listed, 'entity', 'entities')}; ${formatCount(create)} to create, ${formatCount(update.length)} to update, ` +
      `${limitsText(plan.limits.length, ' to write')}, ${formatPlural(plan.unchanged, 'entity', 'entities')} unchanged`,
    ...firstItems(updates, MOST_SHOWN, more => `  … and ${formatCount(more)} more updates`),
    ...keptLines('Temporary copies of limits that become permanent', plannedKept(plan)),
    ...copiedLines(preview.copied),
    ...sideEffectLines(preview),
    ...scopeKindChanges(preview.changed).map(kinds => `Changes ${kinds}`),
    ...firstLines('Changed limits of existing entities', preview.changed.map(changedLine)),
    ...quotaLines(preview, where),
    ...(dryRun && question !== undefined ? ['', confirmationLine(question)] : []),
  ]
}

function changedLine(change: ChangedLimits): string {
  return `~ ${scopeWords(change.scope)}: ${differences(change)
    .map(each => `${each.name} ${changeText(each)}`)
    .join(', ')}`
}

const plannedKept = ({limits}: ImportPlan): KeptCopy[] =>
  limits.flatMap(({scope, kept}) => (kept.length > 0 ? [{scope, limits: kept}] : []))

function keptLines(title: string, kept: readonly KeptCopy[]): string[] {
  if (kept.length === 0) return []
  const lines = kept.map(({scope, limits}) => `  ! ${scopeWords(scope)}: ${limits.map(formatLimit).join(' ')}`)
  return [
    `${title}: limits of ${formatPlural(kept.length, 'entity and resource', 'entities and resources')}`,
    ...firstItems(lines, MOST_SHOWN, more => `  … and ${formatCount(more)} more`),
  ]
}

/** One line for all entities that copy the same limits from the same place. */
function copiedLines(copied: readonly CopiedLimits[]): string[] {
  const groups = groupBy(copied, ({from, limits}) => {
    const source = levelOf(from) === 'entity_default' ? "the entity's default" : scopeWords(from)
    return `${formatList(limits)} copied from ${source}`
  })
  const lines = Array.from(groups, ([what, same]) => {
    const count = new Set(same.map(({scope}) => scope.entity)).size
    return `${what} for ${formatPlural(count, 'entity', 'entities')}; copies do not follow later changes`
  })
  return firstItems(lines, MOST_SHOWN, more => `… and ${formatCount(more)} more copies`)
}

/** `undefined` when the import only adds. */
export function importQuestion(plan: ImportPlan, preview: ImportPreview): string | undefined {
  const updates = actions(plan, 'update').length
  const limits = plan.limits.filter(({before}) => before.length > 0).length
  const refusing = new Set(preview.changed.filter(mayRefuseMore).map(({scope}) => scope.entity)).size
  const kept = plannedKept(plan).length
  const {lost, altered, refused} = sideEffects(preview)
  const parts = [
    ...(updates > 0 ? [`changes ${formatPlural(updates, 'entity', 'entities')}`] : []),
    ...(limits > 0 ? [`changes ${limitsText(limits, ' already set')}`] : []),
    ...(refusing > 0 ? [`may refuse more requests of ${formatPlural(refusing, 'entity', 'entities')}`] : []),
    ...scopeKindChanges(preview.changed).map(kinds => `changes ${kinds}`),
    ...(kept > 0 ? [`makes ${formatPlural(kept, 'temporary copy', 'temporary copies')} of limits permanent`] : []),
    ...lost,
    ...altered,
  ]
  return planQuestion(parts, refused)
}

export function importedLines(plan: ImportPlan, {result, isInterrupted}: ImportRun): string[] {
  const {created, updated, limitsSet, kept, failures, left} = result
  const made = created + updated + limitsSet
  const stopped = isInterrupted
    ? `Stopped after ${formatCount(made)} of ${formatPlural(changesIn(plan), 'change')}. `
    : ''
  return [
    `Created ${formatCount(created)}, updated ${formatCount(updated)}, wrote ${limitsText(limitsSet)}`,
    ...keptLines('Temporary copies of limits that are now permanent', kept),
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
  preview: ImportPreview,
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
    copied: preview.copied.map(({scope, from, limits}) => ({scope: scopeJson(scope), from: scopeJson(from), limits})),
    changed: preview.changed.map(change => ({
      scope: scopeJson(change.scope),
      changes: differences(change).map(limitChangeJson),
      mayRefuseMore: mayRefuseMore(change),
    })),
    ...sideEffectsJson(preview),
    confirmation: importQuestion(plan, preview) ?? null,
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

/** Limits that apply to the scope, its own or inherited ones, and the limits after the import. */
interface ChangedLimits extends Pick<ListedLimits, 'scope'> {
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
}

/** Unlisted limits of a scope without own limits; it gets them from the next level. */
interface CopiedLimits extends Pick<ListedLimits, 'scope'> {
  readonly from: ConfigScope
  /** Names. */
  readonly limits: string[]
}

interface ImportPreview extends FilePreview {
  readonly copied: readonly CopiedLimits[]
  /** Of entities that have a record, own limits or a bucket. First those that may refuse more. */
  readonly changed: readonly ChangedLimits[]
}

/** Read-only, bounded. */
export async function previewImport(
  namespace: NamespaceRepository,
  plan: ImportPlan,
  nowMs: number,
): Promise<ImportPreview> {
  const [{previewChanges}, {moveTexts}, {LevelLimits}, {scopesBelow}] = await Promise.all([
    import('../../insight/preview/preview.js'),
    import('../../insight/preview/move.js'),
    import('../../insight/preview/level-limits.js'),
    import('../../repository/limits/merge.js'),
  ])
  const levels = new LevelLimits(namespace, [])
  await levels.load(plan.limits.flatMap(({scope}) => scopesBelow(scope)))
  const isDefault = ({scope}: Pick<ListedLimits, 'scope'>) => levelOf(scope) === 'entity_default'
  const defaults = new Map<string, readonly Limit[]>()
  const copied: CopiedLimits[] = []
  // Limits of one resource start from a copy of the default limits, so these come first.
  const changes = [...plan.limits]
    .sort((a, b) => Number(isDefault(b)) - Number(isDefault(a)))
    .map(listed => {
      const {scope, entity, limits, before: own} = listed
      const {limits: inherited, scope: level} = levels.appliedAt(scope, 'before')
      const named = limits.map(({name}) => name)
      const base = own.length > 0 ? own : (defaults.get(entity) ?? inherited)
      const after = [...base.filter(({name}) => !named.includes(name)), ...limits]
      const from = defaults.has(entity) ? {...scope, resource: DEFAULT_RESOURCE} : level
      const copies = base.flatMap(({name}) => (named.includes(name) ? [] : [name]))
      if (own.length === 0 && from && copies.length > 0) copied.push({scope, from, limits: copies})
      if (isDefault(listed)) defaults.set(entity, after)
      return {scope, own, before: own.length > 0 ? own : inherited, after, named}
    })
  const created = new Set(actions(plan, 'create').map(({entity}) => entity))
  const isNew = ({scope, own}: (typeof changes)[number]) => created.has(scope.entity) && own.length === 0
  const differing = changes.filter(change => differences(change).length > 0)
  const found = await namespace.buckets.findMany(differing.filter(isNew).map(({scope}) => scope))
  const live = new Set(found.map(({entity, resource}) => `${entity}#${resource}`))
  const existing = differing.filter(
    change => !isNew(change) || live.has(`${change.scope.entity}#${change.scope.resource}`),
  )
  // An entity's first default limits hide resource limits.
  const hiding = changes.filter(change => isDefault(change) && change.own.length === 0)
  const proposed = [...new Set([...hiding, ...existing])].map(({own, ...change}) => ({...change, before: own}))
  const preview = await previewChanges(namespace, proposed, nowMs)
  const updates = actions(plan, 'update').map(({entity, after}) => ({entity, ...after}))
  const moves = await moveTexts(namespace, updates, nowMs)
  const byEffect = groupBy(existing, mayRefuseMore)
  return {...preview, moves, copied, changed: [...(byEffect.get(true) ?? []), ...(byEffect.get(false) ?? [])]}
}

const differences = ({before, after}: ChangedLimits): LimitChange[] =>
  limitChanges(before, after).filter(change => !hasSameText(change.before, change.after))

/** Whether requests that were admitted may be refused. Without limits, requests fail. */
function mayRefuseMore(change: ChangedLimits): boolean {
  if (change.before.length === 0) return false
  return differences(change).some(({before, after}) => {
    if (!after || after.soft) return false
    if (!before || before.soft || kindNameOf(before) !== kindNameOf(after)) return true
    const perSecond = ({refillAmount, refillPeriodSeconds}: Limit) => refillAmount / refillPeriodSeconds
    const {capacity, refillAmount, refillPeriodSeconds} = after
    const isLower = capacity < before.capacity || perSecond(after) < perSecond(before)
    // Other windows, quota periods and time zones refuse more at some time.
    return isLower || !hasSameText({...before, capacity, refillAmount, refillPeriodSeconds}, after)
  })
}

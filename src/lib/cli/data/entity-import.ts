import {InvalidInput, ZaelError} from '../../core/errors.js'
import {formatCount, formatPlural} from '../../core/text.js'
import type {EntityFileFormat, ListedEntities} from '../../manifest/entity-file.js'
import type {ImportPlan, ImportResult} from '../../manifest/import.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {withProgress} from '../output/progress.js'
import type {EntityImportResult} from '../results/entity.js'

const MAX_BYTES = 64 * 2 ** 20

/** Updates and failures that are listed one by one. */
const MOST_SHOWN = 10

/** Reads a list of entities; its format is that of its ending unless it is given. */
export async function readEntityFile(file: string, given: EntityFileFormat | undefined): Promise<ListedEntities> {
  const ending = /\.(csv|jsonl|ndjson)$/i.exec(file)?.[1]?.toLowerCase()
  const format = given ?? (ending === 'csv' ? 'csv' : ending === undefined ? undefined : 'jsonl')
  if (format === undefined) {
    throw new InvalidInput('import.format', `The format of ${file} is not known.`, {
      hint: 'Name it .csv or .jsonl, or add --format csv or --format jsonl.',
    })
  }
  const [{readText}, {parseEntityFile}] = await Promise.all([
    import('../../documents/read.js'),
    import('../../manifest/entity-file.js'),
  ])
  const code = 'import.file'
  const hint = 'See `zael entity import --help` for the columns.'
  const text = await readText({file, code, maxBytes: MAX_BYTES, hint})
  if (text === undefined) throw new ZaelError('notFound', code, `there is no file ${file}`, {hint, details: {file}})
  return parseEntityFile(text, format, {file})
}

/** Compares the list with the table. */
export async function planWithProgress(namespace: NamespaceRepository, listed: ListedEntities): Promise<ImportPlan> {
  const {planImport} = await import('../../manifest/import.js')
  return withProgress(
    (line, signal) => {
      return planImport(namespace, listed, {signal, onProgress: done => line.bar('Comparing', done, listed.size)})
    },
    () => new ZaelError('interrupted', 'import.interrupted', 'Interrupted; nothing was written.'),
  )
}

/** Makes the changes. Ctrl-C lets those in flight finish. */
export async function importWithProgress(namespace: NamespaceRepository, plan: ImportPlan): Promise<ImportResult> {
  const {runImport} = await import('../../manifest/import.js')
  const total = plan.entities.length + plan.limits.length
  let made = 0
  return withProgress(
    (line, signal) =>
      runImport(namespace, plan, {
        signal,
        onProgress: done => {
          made = done
          line.bar('Importing', done, total)
        },
      }),
    () =>
      new ZaelError(
        'interrupted',
        'import.interrupted',
        `Interrupted after ${formatCount(made)} of ${total} changes.`,
        {
          hint: 'Run the same command again: it continues with the rest.',
        },
      ),
  )
}

const actions = ({entities}: ImportPlan, action: 'create' | 'update') =>
  entities.filter(change => change.action === action)

/** What an import would do. */
export function importPlanLines(file: string, plan: ImportPlan): string[] {
  const [create, update] = [actions(plan, 'create').length, actions(plan, 'update')]
  const shown = update.slice(0, MOST_SHOWN).map(({entity, before, after}) => {
    const fields = Object.keys(after).map(name => `${name} ${valueText(before, name)} → ${valueText(after, name)}`)
    return `  ~ ${entity}: ${fields.join(', ')}`
  })
  const more = update.length - shown.length
  return [
    `${file}: ${formatPlural(plan.listed, 'entity', 'entities')}; ${formatCount(create)} to create, ${formatCount(update.length)} to update, ` +
      `limits of ${formatCount(plan.limits.length)} to set, ${formatCount(plan.unchanged)} as they are`,
    ...shown,
    ...(more > 0 ? [`  … and ${formatCount(more)} more updates`] : []),
  ]
}

function valueText(fields: object, name: string): string {
  const value = (fields as Record<string, unknown>)[name]
  return value === undefined || value === null ? '(none)' : typeof value === 'string' ? value : JSON.stringify(value)
}

/** What is asked before something changes that is there; `undefined` when an import only adds. */
export function importQuestion(plan: ImportPlan): string | undefined {
  const updates = actions(plan, 'update').length
  const limits = plan.limits.filter(({before}) => before.length > 0).length
  if (updates === 0 && limits === 0) return undefined
  return `This changes ${formatPlural(updates, 'entity', 'entities')} and the limits of ${formatCount(limits)} that have some`
}

/** What an import has done. */
export function importedLines({created, updated, limitsSet, failures, left}: ImportResult): string[] {
  const done = `Created ${formatCount(created)}, updated ${formatCount(updated)}, limits set for ${formatCount(limitsSet)}`
  return [
    done,
    ...failures.slice(0, MOST_SHOWN).map(({entity, error}) => `  ${entity}: ${error.message}`),
    ...(failures.length > MOST_SHOWN ? [`  … and ${formatCount(failures.length - MOST_SHOWN)} more failures`] : []),
    ...(failures.length > 0 || left > 0
      ? [`${formatCount(failures.length)} failed, ${formatCount(left)} not tried. Run the command again to make them.`]
      : []),
  ]
}

/** The import in JSON. */
export function importJson(file: string, plan: ImportPlan, result: ImportResult | undefined): EntityImportResult {
  return {
    file,
    dryRun: result === undefined,
    listed: plan.listed,
    create: actions(plan, 'create').length,
    update: actions(plan, 'update').length,
    limits: plan.limits.length,
    unchanged: plan.unchanged,
    result: result
      ? {
          ...result,
          failures: result.failures.map(({entity, error: {code, message}}) => ({entity, code, message})),
        }
      : null,
  }
}

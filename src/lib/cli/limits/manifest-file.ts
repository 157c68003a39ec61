import {string} from '@oclif/core/flags'
import {isoMinute} from '../../core/calendar/windows-until.js'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {plainRate} from '../../core/limits/boost-text.js'
import {boostedOf, kindNameOf, type Limit} from '../../core/limits/limit.js'
import type {FileText} from '../../files/read-document.js'
import type {Manifest} from '../../manifest/manifest.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigRecord} from '../../schema/config-record.js'
import type {StackContext} from '../base/context.js'
import {type Settings, typedFlags} from '../base/settings.js'
import {interruptible} from '../output/interrupt.js'
import {writeDocument} from '../output/lines.js'
import type {Listing} from '../output/listing.js'
import {
  keepHeapSmall,
  keepHeapSmallest,
  type LongDocument,
  longJson,
  longYaml,
  type PrintOptions,
} from '../output/long-list.js'
import {SCOPE_COLUMNS} from './json.js'
import {MAX_PLAN_BYTES, parsePlanFile} from './plan-file.js'
import type {PlanFileJson} from './results.js'

const manifestFlag = {
  char: 'f',
  description: 'Manifest file in YAML or JSON; - reads standard input.',
  helpValue: 'FILE',
} as const

export const manifestFlags = {file: string({...manifestFlag, required: true})}
export const optionalManifestFlags = {file: string(manifestFlag)}

export function oneFile(argument: string | undefined, flag: string | undefined): string {
  const [file, other] = [argument, flag].filter(each => each !== undefined)
  if (file !== undefined && other === undefined) return file
  throw new InvalidInput('manifest.file', 'Give one file: a plan, or a manifest with -f.', {
    hint: 'For example `zael limits apply -f limits.yaml`, or `zael limits apply plan.json`.',
  })
}

/** About 300,000 entities. */
const MAX_BYTES = 64 * 2 ** 20

/** For files that are parsed as a whole, which takes 100 times their size in memory. */
const MAX_WHOLE_BYTES = 16 * 2 ** 20

interface ManifestSource {
  readonly manifest: Manifest
  /** As it was parsed; for a plan file, the manifest in it. */
  text(): string
  /** Set if the file is a plan file. */
  readonly reviewed: PlanFileJson | undefined
}

export async function readManifest(file: string): Promise<Manifest> {
  return (await readSource(file)).manifest
}

/** `isKept`: `text` is needed, so keep it. `mayBePlan`: accept a plan file, by its content. */
async function readSource(file: string, {isKept = false, mayBePlan = false} = {}): Promise<ManifestSource> {
  const code = 'manifest.file'
  const hint = 'Create a manifest from the current limits: zael limits export > limits.yaml'
  const [{formatSize, readPieces}, {NotInBlocks, parseManifestBlocks}, {parseManifest}] = await Promise.all([
    import('../../files/read-document.js'),
    import('../../manifest/parse.js'),
    import('../../manifest/parse.js'),
  ])
  keepHeapSmallest()
  const read = await readPieces({file, code, maxBytes: mayBePlan ? MAX_PLAN_BYTES : MAX_BYTES, hint})
  if (!read) throw new ZaelError('notFound', code, `File ${file} does not exist.`, {hint, details: {file}})
  const reviewed = mayBePlan && startsLikeJson(read) ? parsePlanFile(read.text(), file) : undefined
  const kept = reviewed?.manifest ?? (isKept ? read.text() : undefined)
  const bytes = kept === undefined ? read.bytes : Buffer.byteLength(kept)
  const text = () => kept ?? read.text()
  if (bytes > MAX_BYTES) {
    throw new InvalidInput(code, `Cannot read ${file}: it is larger than ${formatSize(MAX_BYTES)}`, {
      hint,
      details: {file},
    })
  }
  try {
    return {manifest: parseManifestBlocks(kept === undefined ? read.pieces : () => [kept], {file}), text, reviewed}
  } catch (error) {
    if (!(error instanceof NotInBlocks)) throw error
    if (bytes <= MAX_WHOLE_BYTES) return {manifest: parseManifest(text(), {file}), text, reviewed}
    throw new InvalidInput(code, `Cannot read ${file}: it is larger than ${formatSize(MAX_WHOLE_BYTES)}`, {
      hint: `Larger files must have the format of \`zael limits export\`. Line ${error.line} differs.`,
      details: {file, line: error.line},
    })
  }
}

function startsLikeJson(read: FileText): boolean {
  for (const piece of read.pieces()) if (piece.trim() !== '') return piece.trimStart().startsWith('{')
  return false
}

/** A typed `--namespace` must be the one in the manifest. `where`: flags for suggested commands. */
export async function openManifest(
  file: string,
  {repository}: StackContext,
  settings: Settings,
  options?: {readonly isKept?: boolean; readonly mayBePlan?: boolean},
): Promise<ManifestSource & {readonly namespace: NamespaceRepository; readonly where: string}> {
  const read = await readSource(file, options)
  const {openManifestNamespace} = await import('../../manifest/manifest.js')
  const {source, value} = settings.namespace
  const asked = source === 'flag' ? value : undefined
  const named = {...settings.namespace, source: 'flag', value: read.manifest.namespace} as const
  const where = typedFlags({...settings, namespace: named})
  return {...read, namespace: await openManifestNamespace(repository, read.manifest, asked), where}
}

/** Deliberately invalid YAML: applying a truncated manifest would delete the missing limits. */
const INCOMPLETE = '} This manifest is incomplete: reading the table failed or was interrupted.\n'

export async function printManifest(
  namespace: NamespaceRepository,
  name: string,
  {format, after, onBegin}: PrintOptions,
): Promise<void> {
  keepHeapSmall()
  const [{manifestTexts, openExport}, {yamlText}] = await Promise.all([
    import('../../manifest/export.js'),
    import('../../files/yaml-text.js'),
  ])
  await interruptible(async signal => {
    if (format === 'table') {
      await writeDocument(marked(manifestTexts(namespace, name, signal)), onBegin)
      return
    }
    const {head, entities} = await openExport(namespace, name, signal)
    const document = {before: head, field: 'entities', parts: parts(entities), isOptional: true, after}
    await writeDocument(format === 'yaml' ? marked(longYaml(document, yamlText)) : longJson(document), onBegin)
  }, interrupted)
}

async function* parts(
  entities: AsyncIterable<readonly [id: string, form: unknown]>,
): LongDocument['parts'] & AsyncGenerator<Record<string, unknown>, void> {
  for await (const [id, form] of entities) yield {[id]: form}
}

/** JSON needs no mark: it lacks its last bracket. */
async function* marked(texts: AsyncIterable<string>): AsyncGenerator<string, void> {
  try {
    yield* texts
  } catch (error) {
    yield INCOMPLETE
    throw error
  }
}

const interrupted = (): ZaelError =>
  new ZaelError('interrupted', 'manifest.export-interrupted', 'Interrupted: the manifest is incomplete.')

type LimitRow = Pick<ConfigRecord, 'scope'> & {readonly limit: Limit}

export function limitRows(records: readonly ConfigRecord[]): Listing<LimitRow> {
  return {
    rows: records.flatMap(({scope, limits}) => limits.map(limit => ({scope, limit}))),
    columns: [
      ...SCOPE_COLUMNS,
      {name: 'limit', value: ({limit}) => limit.name},
      {name: 'value', value: ({limit}) => plainRate(limit)},
      {name: 'capacity', value: ({limit}) => limit.capacity},
      {name: 'refill-amount', value: ({limit}) => limit.refillAmount},
      {
        name: 'refill-period-seconds',
        value: ({limit}) => (kindNameOf(limit) === 'rate' ? limit.refillPeriodSeconds : undefined),
      },
      {
        name: 'boosted-to',
        value: ({limit}) =>
          limit.boost?.isEnded ? undefined : boostedOf(limit) && plainRate(boostedOf(limit) as Limit),
      },
      {
        name: 'boosted-until',
        value: ({limit: {boost}}) => (boost && !boost.isEnded ? isoMinute(boost.untilMs) : undefined),
      },
      {name: 'unit', value: ({limit}) => limit.unit},
    ],
    empty: '',
  }
}

import {ZaelError} from '../../core/errors.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {isInvalid} from '../../dynamo/errors.js'
import {keyOf} from '../../schema/keys.js'
import {compareBuckets} from '../buckets/compare.js'
import {classifyPage} from '../records/classified-page.js'
import type {OldRecordType} from '../records/classify.js'
import {putAll, readItems} from '../records/conditional.js'
import {
  compareAudit,
  compareEntities,
  compareProvisioner,
  compareRegistries,
  compareVersions,
} from '../records/copied-records.js'
import {
  type Compare,
  findingKey,
  type MigrationContext,
  type MigrationFinding,
  mapConcurrently,
  type OldItem,
} from '../records/finding.js'
import {compareLimits} from '../records/limits.js'
import {compareUsage} from '../usage/compare.js'

/** Records written at once. Configurations share one registry item, so concurrent writes would only collide. */
const CONCURRENT_WRITES: Readonly<Record<OldRecordType, number>> = {
  entity: 16,
  bucket: 16,
  limits: 1,
  usage: 8,
  audit: 16,
  version: 1,
  registry: 1,
  settings: 1,
}

const COPIES_PER_BATCH = 25
const CONCURRENT_BATCHES = 4

/** Tries of a write while other clients change the same record. */
const ATTEMPTS = 20

/** Without limits, a system configuration is still a configuration. Other settings are the provisioner's. */
const compareSettings: Compare<'settings'> = async (context, items) => {
  const system = items.filter(({record}) => record.settings === 'system')
  const others = items.filter(({record}) => record.settings !== 'system')
  return [...(await compareLimits(context, system)), ...(await compareProvisioner(context, others))]
}

const COMPARE: {readonly [T in OldRecordType]: Compare<T>} = {
  entity: compareEntities,
  bucket: compareBuckets,
  limits: compareLimits,
  usage: compareUsage,
  audit: compareAudit,
  version: compareVersions,
  registry: compareRegistries,
  settings: compareSettings,
}

/** Read-only. A record that cannot be moved does not stop the others. */
export async function compareGroup(
  context: MigrationContext,
  type: OldRecordType,
  items: readonly OldItem[],
): Promise<MigrationFinding[]> {
  try {
    const findings = await (COMPARE[type] as Compare)(context, items)
    return context.defaultNamespace === undefined ? findings.map(awaitNamespace) : findings
  } catch (error) {
    if (!isCausedByContent(error)) throw error
    const [only, another] = items
    if (only && !another) return [unmovable({type, sources: [only]}, error)]
    return (await mapConcurrently(items, one => compareGroup(context, type, [one]))).flat()
  }
}

/** Until `default` is registered, data without a namespace can neither be compared nor copied. */
function awaitNamespace(finding: MigrationFinding): MigrationFinding {
  const {type, sources, state} = finding
  const isCompared = state === 'same' || state === 'behind' || state === 'conflict'
  // Versions and registries are not copied.
  if (!isCompared || type === 'version' || type === 'registry') return finding
  const lacksNamespace = sources.some(({record}) => record.namespace === undefined)
  return lacksNamespace ? {type, sources, state: 'behind', reason: 'has no namespace yet'} : finding
}

/** Such an error is permanent, and concerns that record only. */
const isCausedByContent = (error: unknown): error is Error => error instanceof RangeError || isInvalid(error)

function unmovable({type, sources}: Pick<MigrationFinding, 'type' | 'sources'>, {message}: Error): MigrationFinding {
  return {type, sources, state: 'unmovable', reason: `cannot be moved: ${message}`}
}

export type CopyOutcome = MigrationFinding & {readonly written: boolean}

export async function writeGroup(
  context: MigrationContext,
  type: OldRecordType,
  findings: readonly MigrationFinding[],
): Promise<CopyOutcome[]> {
  const outcomes: CopyOutcome[] = []
  const isBatched = ({firstCopy}: MigrationFinding) => type === 'audit' && firstCopy !== undefined
  await forEachConcurrently(chunksOf(findings.filter(isBatched), COPIES_PER_BATCH), CONCURRENT_BATCHES, async chunk => {
    outcomes.push(...(await putBatch(context, chunk)))
  })
  const others = findings.filter(finding => !isBatched(finding))
  await forEachConcurrently(others, CONCURRENT_WRITES[type], async finding => {
    outcomes.push(await writeCopy(context, finding))
  })
  return outcomes
}

/**
 * Unconditional: an event never changes, and no other client writes its id. If the batch is rejected, each event is
 * written alone.
 */
async function putBatch(context: MigrationContext, findings: readonly MigrationFinding[]): Promise<CopyOutcome[]> {
  try {
    await putAll(
      context,
      findings.flatMap(({firstCopy}) => (firstCopy ? [firstCopy] : [])),
    )
    return findings.map(finding => ({...finding, written: true}))
  } catch (error) {
    if (!isCausedByContent(error)) throw error
    return mapConcurrently(findings, finding => writeCopy(context, finding))
  }
}

async function writeCopy(context: MigrationContext, first: MigrationFinding): Promise<CopyOutcome> {
  let finding = first
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (!finding.write) return {...finding, written: attempt > 0 && finding.state === 'same'}
    try {
      if (await finding.write()) return {...finding, written: true}
    } catch (error) {
      if (!isCausedByContent(error)) throw error
      return {...unmovable(finding, error), written: false}
    }
    const again = await compareAgain(context, finding)
    if (!again) return {...finding, state: 'same', written: false}
    finding = again
  }
  throw new ZaelError('conflict', 'migrate.contended', `Other clients keep changing ${findingKey(finding)}.`, {
    hint: 'Resume: `zael migrate run`.',
  })
}

export async function compareAgain(
  context: MigrationContext,
  {sources}: MigrationFinding,
): Promise<MigrationFinding | undefined> {
  // In all locations: with known locations, the comparison would assume that the old items still exist.
  const anywhere = {...context, locations: undefined}
  const items = await readItems(
    anywhere,
    sources.map(({item}) => keyOf(item)),
  )
  for (const [type, old] of classifyPage(anywhere, items.values()).old) {
    const [finding] = await compareGroup(anywhere, type, old)
    if (finding && finding.sources.length > 0) return finding
  }
  return undefined
}

import {ZaelError} from '../../core/errors.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {isInvalid} from '../../dynamo/errors.js'
import {keyOf} from '../../repository/table/query.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {lookAtBuckets} from '../buckets/buckets.js'
import {classifyItem, type OldRecordType} from '../records/classify.js'
import {
  lookAtAudit,
  lookAtEntities,
  lookAtRegistries,
  lookAtSettings,
  lookAtVersions,
  readItems,
} from '../records/copied-records.js'
import {eachOf, type Found, type MigrationContext, type MigrationFinding, spellKey} from '../records/finding.js'
import {lookAtLimits} from '../records/limits.js'
import {lookAtUsage} from '../usage/usage.js'

/** Records in flight at once. Configurations share one registry item, and would only stand in each other's way. */
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

/** How often a record is looked at anew because somebody else changed it at the same moment. */
const ATTEMPTS = 20

type Look = (stage: MigrationContext, found: readonly Found[]) => Promise<MigrationFinding[]>

const LOOKS: Readonly<Record<OldRecordType, Look>> = {
  entity: lookAtEntities as Look,
  bucket: lookAtBuckets as Look,
  limits: lookAtLimits as Look,
  usage: lookAtUsage as Look,
  audit: lookAtAudit as Look,
  version: lookAtVersions as Look,
  registry: lookAtRegistries as Look,
  settings: ((stage, found) => lookAtSystemSettings(stage, found as Found<'settings'>[])) as Look,
}

/** The old records of a page, by kind, and the keys of what nobody knows. */
export interface SortedPage {
  readonly old: ReadonlyMap<OldRecordType, readonly Found[]>
  readonly unknown: readonly Key[]
}

/** Sorts the items of a page. */
export function sortPage(stage: MigrationContext, items: readonly Item[]): SortedPage {
  const old = new Map<OldRecordType, Found[]>()
  const unknown: Key[] = []
  for (const item of items) {
    const record = classifyItem(item, stage)
    if (record.kind === 'unknown') unknown.push(record.key)
    if (record.kind !== 'old') continue
    const known = old.get(record.type)
    if (known) known.push({item, record})
    else old.set(record.type, [{item, record}])
  }
  return {old, unknown}
}

/** Compares old records of one kind with the new place; reads only. One that nobody can make sense of stops no other. */
export async function compareGroup(
  stage: MigrationContext,
  type: OldRecordType,
  found: readonly Found[],
): Promise<MigrationFinding[]> {
  try {
    const findings = await LOOKS[type](stage, found)
    return stage.defaultNamespace === undefined ? findings.map(finding => waiting(stage, finding)) : findings
  } catch (error) {
    if (!isAboutContent(error)) throw error
    const [only, another] = found
    if (only && !another) return [unmovable({type, sources: [only.item]}, error)]
    return (await eachOf(found, one => compareGroup(stage, type, [one]))).flat()
  }
}

/**
 * Data without a namespace has to wait for one: there is nothing to compare it with, nor a place to put it. Of versions and
 * registries nothing is moved.
 */
function waiting(stage: MigrationContext, finding: MigrationFinding): MigrationFinding {
  const {type, sources, state} = finding
  const isCompared = state === 'same' || state === 'behind' || state === 'conflict'
  if (!isCompared || type === 'version' || type === 'registry') return finding
  const isHomeless = sources.some(source => {
    const record = classifyItem(source, stage)
    return record.kind === 'old' && record.namespace === undefined
  })
  return isHomeless ? {type, sources, state: 'behind', says: 'has no namespace yet'} : finding
}

/** Whether a failure is about what a record says, so that it fails for ever and for that record alone. */
const isAboutContent = (error: unknown): error is Error => error instanceof RangeError || isInvalid(error)

/** A record that today's layout cannot hold: a number, its size or its key. */
function unmovable({type, sources}: Pick<MigrationFinding, 'type' | 'sources'>, {message}: Error): MigrationFinding {
  return {type, sources, state: 'unmovable', says: `cannot be moved: ${message}`}
}

/** Brings the new place up to date for records of one kind; tells what was found, and whether it was written. */
export async function bringUpToDate(
  stage: MigrationContext,
  type: OldRecordType,
  found: readonly Found[],
): Promise<readonly (MigrationFinding & {readonly written: boolean})[]> {
  const results: (MigrationFinding & {written: boolean})[] = []
  const findings = await compareGroup(stage, type, found)
  await forEachConcurrently(chunksOf(findings, 1), CONCURRENT_WRITES[type], async ([finding]) => {
    if (finding) results.push(await settle(stage, finding))
  })
  return results
}

/** Writes, and looks again when somebody came in between. The old items are those of the first look: a pass comes back. */
async function settle(
  stage: MigrationContext,
  first: MigrationFinding,
): Promise<MigrationFinding & {written: boolean}> {
  let finding = first
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (!finding.write) return {...finding, written: attempt > 0 && finding.state === 'same'}
    try {
      if (await finding.write()) return {...finding, written: true}
    } catch (error) {
      if (!isAboutContent(error)) throw error
      return {...unmovable(finding, error), written: false}
    }
    const again = await lookAgain(stage, finding)
    if (!again) return {...finding, state: 'same', written: false}
    finding = again
  }
  const place = spellKey(keyOf(finding.sources[0] as Item))
  throw new ZaelError('conflict', 'migrate.contended', `Others keep changing ${place}.`, {
    hint: 'Run `zael migrate run` again to go on; it starts where this run stopped.',
  })
}

/** What a record comes to now; `undefined` when the old items are gone. */
export async function lookAgain(
  stage: MigrationContext,
  {sources}: MigrationFinding,
): Promise<MigrationFinding | undefined> {
  // Everywhere: with fewer questions asked, items that are gone would be taken for what they were.
  const anywhere = {...stage, places: undefined}
  const there = await readItems(anywhere, sources.map(keyOf))
  for (const [type, found] of sortPage(anywhere, [...there.values()]).old) {
    const [finding] = await compareGroup(anywhere, type, found)
    if (finding && finding.sources.length > 0) return finding
  }
  return undefined
}

/** A system configuration without limits is a configuration; what is left is the provisioner's. */
async function lookAtSystemSettings(
  stage: MigrationContext,
  found: readonly Found<'settings'>[],
): Promise<MigrationFinding[]> {
  const system = found.filter(({record}) => record.settings === 'system')
  const others = found.filter(({record}) => record.settings !== 'system')
  return [...(await lookAtLimits(stage, system)), ...(await lookAtSettings(stage, others))]
}

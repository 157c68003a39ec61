import type {DeepReadonly} from '../core/deep-readonly.js'
import {getItem, type Table} from '../repository/table/table.js'
import {readVersion, type StoredVersion} from '../repository/table/version.js'
import {laterRelease, recordedRelease} from '../repository/table/version-compatibility.js'
import type {Item, Key} from '../schema/attribute-value.js'
import {itemBytes} from '../schema/item-size.js'
import {keyOf, spellKey} from '../schema/keys.js'
import {LITERAL_DEFAULT, legacyVersionKey} from '../schema/legacy-key.js'
import type {MigrationRecord} from '../schema/migration-record.js'
import {featuresIn, PEER_FEATURES, type PeerFeature} from '../schema/peer-features.js'
import {readSchemaVersion} from './layouts/record-shapes.js'
import {openLimiterTable} from './limiter-table.js'
import {LimitlessFinder} from './limitless/find.js'
import {type Limitless, LimitlessTally, NOTHING_LIMITLESS} from './limitless/tally.js'
import {classifyPage} from './records/classified-page.js'
import type {ClassifiedRecord, CurrentRecordType, OldGeneration, OldRecordType} from './records/classify.js'
import {isAcceptedVersion} from './records/copied-records.js'
import {findingKey, type MigrationFinding} from './records/finding.js'
import {findMissingParts, type MissingParts} from './walk/add-indexes.js'
import {readMigration} from './walk/lease.js'
import {compareGroup} from './walk/reconcile.js'
import {tablePages} from './walk/scan.js'

export interface Survey extends SurveyCounts {
  readonly schema: Awaited<ReturnType<typeof recordedSchema>>
  /** Release of zae-limiter that the records show. `undefined`: an older layout. */
  readonly release: string | undefined
  readonly missing: MissingParts
  /** Data without a namespace needs `default`, which is not registered. */
  readonly registersDefault: boolean
  readonly hasDefault: boolean
  readonly run: MigrationRecord | undefined
  readonly isRunning: boolean
  /** Empty for a table that never had an older layout: there, clients may define their own limits. */
  readonly limitless: Limitless
}

interface SurveyOptions {
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: (items: number) => void
}

/** Read-only. Memory is bounded by a page and a {@link LimitlessTally}. Throws for a newer layout or another table. */
export async function surveyTable(table: Table, {ourVersion, signal, onProgress}: SurveyOptions): Promise<Survey> {
  const context = await openLimiterTable(table, {ourVersion, signal})
  const counter = new SurveyCounter()
  const finder = new LimitlessFinder({oldBuckets: true, oldLimits: true})
  const tally = new LimitlessTally()
  for await (const {items, isWhole} of tablePages(context, {ahead: true})) {
    const page = classifyPage(context, items, isWhole)
    for (const {item, record} of page.all) counter.addItem(item, record)
    for (const [type, old] of page.old) {
      for (const finding of await compareGroup(context, type, old)) counter.addFinding(finding)
    }
    for (const bucket of await finder.find(context, page)) tally.add(bucket)
    onProgress?.(counter.items)
  }
  const run = await readMigration(table)
  const version = await readVersion(table)
  const hasDefault = context.defaultNamespace !== undefined
  const counts = counter.counts(hasDefault)
  return {
    ...counts,
    schema: await recordedSchema(table, version),
    release: releaseOf(version, counter.features),
    missing: await findMissingParts(context),
    registersDefault: !hasDefault && counter.hasUnprefixed,
    hasDefault,
    run,
    isRunning: run !== undefined && run.leaseUntilMs > table.clock(),
    limitless: counts.old.length > 0 || run ? tally.limitless : NOTHING_LIMITLESS,
  }
}

function releaseOf({record}: StoredVersion, features: ReadonlyMap<PeerFeature, number>): string | undefined {
  const since = [...features.keys()].map(feature => `${PEER_FEATURES[feature].since}.0`)
  return record && since.reduce(laterRelease, recordedRelease(record))
}

/** From the version records, also from the one of tables before namespaces. The data may differ (C-8). */
async function recordedSchema(table: Table, {record, hasLegacyRecord}: StoredVersion) {
  const legacy = hasLegacyRecord ? await getItem(table, legacyVersionKey) : undefined
  return {
    current: record?.schemaVersion,
    legacy: legacy && readSchemaVersion(legacy),
    isAccepted: record ? isAcceptedVersion(record) : !hasLegacyRecord,
  }
}

const LISTED = 20

export interface SurveyRow {
  readonly type: OldRecordType
  readonly generation: OldGeneration
  /** Python releases that wrote this format. */
  readonly releases: string
  readonly items: number
  /** Records in the current layout. Limits with an item each share one. */
  readonly records: number
  /** Groups that are compared together, such as the usage of one day. */
  readonly groups: number
  readonly bytes: number
  readonly pending: number
  readonly conflicts: number
  readonly expired: number
}

export type SurveyCounts = DeepReadonly<ReturnType<SurveyCounter['counts']>>

const RELEASES: Readonly<Record<OldRecordType, Readonly<Partial<Record<OldGeneration, string>>>>> = {
  entity: {1: '0.1–0.5', 2: '0.6–0.9', 5: '0.10'},
  bucket: {1: '0.1–0.5', 2: '0.6', 3: '0.7–0.8', 4: '0.9', 5: '0.10.0'},
  limits: {1: '0.1–0.5', 2: '0.6–0.7', 4: '0.8–0.9', 5: '0.10'},
  settings: {2: '0.6–0.9', 5: '0.10'},
  registry: {2: '0.6–0.9', 4: '0.8–0.9', 5: '0.10'},
  usage: {1: '0.1–0.9', 5: '0.10'},
  audit: {1: '0.2–0.5', 2: '0.6–0.9', 5: '0.10'},
  version: {1: '0.1–0.5', 2: '0.6', 3: '0.7', 4: '0.8–0.9'},
}

type Row = {-readonly [K in keyof SurveyRow]: SurveyRow[K]}

class SurveyCounter {
  items = 0
  hasUnprefixed = false
  readonly features = new Map<PeerFeature, number>()
  #bytes = 0
  #unknown = 0
  readonly #unknownKeys: string[] = []
  readonly #rows = new Map<string, Row>()
  readonly #literal = new Map<CurrentRecordType, {items: number; bytes: number}>()
  readonly #current: Partial<Record<CurrentRecordType, number>> = {}
  readonly #conflicts = new Map<string, string>()

  /** Old items are also added by {@link addFinding}, once they are compared. */
  addItem(item: Item, record: ClassifiedRecord): void {
    const bytes = itemBytes(item)
    for (const feature of featuresIn(item)) this.features.set(feature, (this.features.get(feature) ?? 0) + 1)
    this.items++
    this.#bytes += bytes
    if (record.kind === 'unknown') {
      this.#addUnknown(record.key)
    } else if (record.kind === 'old') {
      if (record.namespace === undefined && record.type !== 'version') this.hasUnprefixed = true
    } else if (record.namespace === LITERAL_DEFAULT) {
      const before = this.#literal.get(record.type) ?? {items: 0, bytes: 0}
      this.#literal.set(record.type, {items: before.items + 1, bytes: before.bytes + bytes})
    } else {
      this.#current[record.type] = (this.#current[record.type] ?? 0) + 1
    }
  }

  addFinding(finding: MigrationFinding): void {
    const {state, reason = 'differs', sources} = finding
    if (state === 'unknown') {
      for (const {item} of sources) this.#addUnknown(keyOf(item))
      return
    }
    const needsDecision = state === 'conflict' || state === 'unmovable'
    for (const [at, {item, record}] of sources.entries()) {
      const row = this.#row(record.type, record.generation)
      row.items++
      row.bytes += itemBytes(item)
      if (at === 0) row.groups++
      if (at === 0 || record.type === 'usage') row.records++
      if (state === 'behind') row.pending++
      if (state === 'expired') row.expired++
      if (needsDecision) row.conflicts++
    }
    if (needsDecision && this.#conflicts.size < LISTED) this.#conflicts.set(findingKey(finding), reason)
  }

  /** Items under the id `default` move once that namespace is registered with another id. */
  counts(isDefaultRegistered: boolean) {
    const moves = !isDefaultRegistered && this.hasUnprefixed
    const literal = moves ? [...this.#literal].map(([type, counts]) => literalRow(type as OldRecordType, counts)) : []
    const current = {...this.#current}
    if (!moves) for (const [type, {items}] of this.#literal) current[type] = (current[type] ?? 0) + items
    return {
      items: this.items,
      bytes: this.#bytes,
      old: [...this.#rows.values(), ...literal].sort(
        (a, b) => a.generation - b.generation || (a.type < b.type ? -1 : 1),
      ),
      current,
      /** Items by feature of zae-limiter 0.11 to 0.17. */
      features: this.features,
      /** Includes unreadable buckets. Only the first keys. */
      unknown: {items: this.#unknown, keys: this.#unknownKeys},
      /** Only the first, one per record. */
      conflicts: [...this.#conflicts].map(([key, reason]) => ({key, reason})),
    }
  }

  #addUnknown(key: Key): void {
    this.#unknown++
    if (this.#unknownKeys.length < LISTED) this.#unknownKeys.push(spellKey(key))
  }

  #row(type: OldRecordType, generation: OldGeneration): Row {
    const name = `${generation} ${type}`
    const row = this.#rows.get(name) ?? emptyRow(type, generation)
    this.#rows.set(name, row)
    return row
  }
}

function literalRow(type: OldRecordType, {items, bytes}: {items: number; bytes: number}): SurveyRow {
  return {...emptyRow(type, 5), items, records: items, groups: items, bytes, pending: items}
}

function emptyRow(type: OldRecordType, generation: OldGeneration): Row {
  const releases = RELEASES[type][generation] ?? ''
  return {type, generation, releases, items: 0, records: 0, groups: 0, bytes: 0, pending: 0, conflicts: 0, expired: 0}
}

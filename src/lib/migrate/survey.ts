import {getItem, type Table} from '../repository/table/table.js'
import {readVersion, type StoredVersion} from '../repository/table/version.js'
import {checkCompatibility, laterRelease, recordedRelease} from '../repository/table/version-compatibility.js'
import {legacyVersionKey} from '../schema/legacy-key.js'
import type {MigrationRecord} from '../schema/migration-record.js'
import {PEER_FEATURES, type PeerFeature} from '../schema/peer-features.js'
import {readSchemaVersion} from './layouts/record-shapes.js'
import {openLimiterTable} from './limiter-table.js'
import {LimitlessFinder} from './limitless/find.js'
import {type Limitless, LimitlessTally, NOTHING_LIMITLESS} from './limitless/tally.js'
import {type ClassifiedPage, classifyPage} from './records/classified-page.js'
import type {MigrationContext} from './records/finding.js'
import {SurveyCounter, type SurveyCounts} from './survey-counts.js'
import {findMissingParts, type MissingParts} from './walk/add-indexes.js'
import {readMigration} from './walk/lease.js'
import {compareGroup} from './walk/reconcile.js'
import {tablePages} from './walk/scan.js'

/** From the version records. The data may differ (C-8). */
interface RecordedSchema {
  readonly current: string | undefined
  /** From the record that tables had before namespaces. */
  readonly legacy: string | undefined
  readonly isAccepted: boolean
}

export interface Survey extends SurveyCounts {
  readonly schema: RecordedSchema
  /** Release of zae-limiter that the records show. `undefined`: an older layout. */
  readonly release: string | undefined
  readonly missing: MissingParts
  /** Whether data without a namespace needs `default` to be registered. */
  readonly registersDefault: boolean
  readonly hasDefault: boolean
  readonly run: MigrationRecord | undefined
  readonly isRunning: boolean
  /** Empty for a table that never had an older layout, where clients may have limits of their own. */
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
    await countPage(context, counter, page)
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

async function countPage(context: MigrationContext, counter: SurveyCounter, page: ClassifiedPage): Promise<void> {
  for (const {item, record} of page.all) counter.addItem(item, record)
  for (const [type, old] of page.old) {
    for (const finding of await compareGroup(context, type, old)) counter.addFinding(finding)
  }
}

async function recordedSchema(table: Table, {record, hasLegacyRecord}: StoredVersion): Promise<RecordedSchema> {
  const legacy = hasLegacyRecord ? await getItem(table, legacyVersionKey) : undefined
  return {
    current: record?.schemaVersion,
    legacy: legacy && readSchemaVersion(legacy),
    isAccepted: succeeds(() => checkCompatibility(record, undefined, hasLegacyRecord)),
  }
}

function succeeds(check: () => void): boolean {
  try {
    check()
    return true
  } catch {
    return false
  }
}

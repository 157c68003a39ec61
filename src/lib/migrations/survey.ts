import {groupBy} from '../core/group-by.js'
import {keyOf} from '../repository/table/query.js'
import {getItem, type Table} from '../repository/table/table.js'
import {readVersion} from '../repository/table/version.js'
import {checkCompatibility} from '../repository/table/version-compatibility.js'
import type {Item} from '../schema/attribute-value.js'
import {itemBytes} from '../schema/item-size.js'
import {legacyVersionKey} from '../schema/legacy/key.js'
import {flatten} from '../schema/legacy/modernise.js'
import type {MigrationRecord} from '../schema/migration-record.js'
import {readString} from '../schema/read.js'
import {openLimiterTable} from './limiter-table.js'
import {classifyItem} from './records/classify.js'
import type {Found, MigrationContext} from './records/finding.js'
import {type SurveyCounts, type SurveyPart, SurveyTally} from './survey-tally.js'
import {findMissingParts, type MissingParts} from './walk/add-indexes.js'
import {readMigration} from './walk/lease.js'
import {compareGroup} from './walk/reconcile.js'
import {tablePages} from './walk/scan.js'

/** What the version records say about the layout; what lies in the table may say otherwise (C-8). */
export interface RecordedSchema {
  readonly current: string | undefined
  /** In the place where tables without namespaces had it. */
  readonly legacy: string | undefined
  /** Whether the record in today's place is one that today's clients accept, or the table needs none. */
  readonly isAccepted: boolean
}

/** Everything there is to know about a table before it is migrated. */
export interface Survey extends SurveyCounts {
  readonly schema: RecordedSchema
  readonly missing: MissingParts
  /** Whether the namespace `default` has to be registered for data that has no namespace. */
  readonly registersDefault: boolean
  /** Whether it is registered. */
  readonly hasDefault: boolean
  /** The latest run, if there was one. */
  readonly run: MigrationRecord | undefined
  /** Whether somebody is at it now. */
  readonly isRunning: boolean
}

export interface SurveyOptions {
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
  /** Called after every page with the number of items seen so far. */
  readonly onProgress?: (items: number) => void
}

/**
 * Looks at every item of a table once, and compares those of older layouts with the new place; writes nothing. Memory is
 * that of one page, however large the table. Throws when the layout is newer than this zael, or
 * the table is not a rate limiter's.
 */
export async function surveyTable(table: Table, {ourVersion, signal, onProgress}: SurveyOptions): Promise<Survey> {
  const stage = await openLimiterTable(table, {ourVersion, signal})
  const tally = new SurveyTally()
  for await (const {items} of tablePages(stage, {ahead: true})) {
    await countPage(stage, tally, items)
    onProgress?.(tally.items)
  }
  const run = await readMigration(table)
  return {
    ...tally.counts(stage.defaultNamespace !== undefined),
    schema: await recordedSchema(table),
    missing: await findMissingParts(stage),
    registersDefault: stage.defaultNamespace === undefined && tally.hasUnprefixed,
    hasDefault: stage.defaultNamespace !== undefined,
    run,
    isRunning: run !== undefined && run.leaseUntilMs > table.clock(),
  }
}

async function countPage(stage: MigrationContext, tally: SurveyTally, items: readonly Item[]): Promise<void> {
  const old: Found[] = []
  for (const item of items) {
    const record = classifyItem(item, stage)
    if (record.kind === 'old') old.push({item, record} as Found)
    else tally.addOther(record, itemBytes(item))
  }
  for (const {item, record} of old) tally.addOld(record, itemBytes(item))
  for (const found of groupBy(old, ({record}) => record.type).values()) {
    for (const finding of await compareGroup(stage, (found[0] as Found).record.type, found)) {
      // Told once for all its items, on whatever page they lie.
      const parts = finding.sources.flatMap((item): SurveyPart[] => {
        const record = classifyItem(item, stage)
        return record.kind === 'old' ? [{record, key: keyOf(item), bytes: itemBytes(item)}] : []
      })
      tally.addFinding(finding, parts)
    }
  }
}

async function recordedSchema(table: Table): Promise<RecordedSchema> {
  const {record, hasLegacyRecord} = await readVersion(table)
  const legacy = hasLegacyRecord ? await getItem(table, legacyVersionKey) : undefined
  return {
    current: record?.schemaVersion,
    legacy: legacy && readString(flatten(legacy), 'schema_version'),
    isAccepted: accepts(() => checkCompatibility(record, undefined, hasLegacyRecord)),
  }
}

function accepts(check: () => void): boolean {
  try {
    check()
    return true
  } catch {
    return false
  }
}

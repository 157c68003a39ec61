import type {OldRecordType} from './records/classify.js'
import type {Survey} from './survey.js'
import type {SurveyRow} from './survey-tally.js'
import {CONFIGURATION, DATA, type StepId} from './walk/steps.js'

const BYTES_PER_READ_UNIT = 4096
const BYTES_PER_WRITE_UNIT = 1024

/** How much larger a copy is: its keys name the namespace twice more, and it has a mark. */
const GROWTH = 1.5

/** Writes to the table and its indexes for one record; limits enter a registry in the same transaction. */
const WRITES_PER_RECORD: Readonly<Record<OldRecordType, number>> = {
  entity: 3,
  limits: 8,
  settings: 2,
  registry: 0,
  bucket: 4,
  usage: 3,
  audit: 2,
  version: 2,
}

/** Two records in one transaction, which costs twice, and their entries in an index. */
export const WRITES_PER_NAMESPACE = 8

/**
 * Reads for one record in the step that copies it: its new place. Nothing is known of the table while the configuration is
 * copied, so entities and limits are looked for in all places that there may be.
 */
const READS_PER_COPY: Readonly<Record<OldRecordType, number>> = {
  entity: 2,
  limits: 6,
  settings: 6,
  registry: 0,
  bucket: 1,
  usage: 1,
  audit: 1,
  version: 0,
}

/** Later its new place is looked at. */
const READS_PER_LOOK: Readonly<Record<OldRecordType, number>> = {
  ...READS_PER_COPY,
  entity: 1,
  limits: 1,
  settings: 1,
}

/** A bucket that is not there yet is made with what its entity says, in the new place or the old one. */
const READS_PER_NEW_BUCKET = 2

/** Places in which old items of one record may lie when there are several. */
const PLACES = 3

/** What a step reads that goes through the table and moves records of some rows, in capacity units. */
export function readUnits(id: StepId, rows: readonly SurveyRow[], survey: Survey): number {
  const reads = id === 'catch-up' ? READS_PER_LOOK : READS_PER_COPY
  const looks = rows.reduce((total, row) => total + reads[row.type] * row.records, 0)
  const made = id === 'data' ? rows.filter(({type}) => type === 'bucket').map(pendingRecords) : []
  const entities = READS_PER_NEW_BUCKET * made.reduce((total, count) => total + count, 0)
  return scanUnits(id, survey) + looks + entities + queries(id, rows)
}

/** A walk meets copies too: those of its own step half of the time, because they come to lie anywhere. */
function scanUnits(id: StepId, {bytes, old}: Survey): number {
  const ofConfiguration = copiedBytes(old, CONFIGURATION)
  const ofData = copiedBytes(old, DATA)
  const met: Partial<Record<StepId, number>> = {
    configuration: ofConfiguration / 2,
    data: ofConfiguration + ofData / 2,
    'catch-up': ofConfiguration + ofData,
  }
  return Math.ceil((bytes + (met[id] ?? 0)) / BYTES_PER_READ_UNIT)
}

function copiedBytes(old: readonly SurveyRow[], types: readonly OldRecordType[]): number {
  const moved = old.filter(({type}) => types.includes(type))
  return GROWTH * moved.reduce((sum, {bytes, pending, items}) => sum + (bytes * pending) / items, 0)
}

/** Other items of a record are asked for with a query each: those of its day, of single limits, in older places. */
function queries(id: StepId, rows: readonly SurveyRow[]): number {
  // While the configuration is copied, its queries count as reads: nothing is known that could save them.
  const types: readonly OldRecordType[] = id === 'catch-up' ? ['bucket', 'limits', 'usage'] : ['bucket', 'usage']
  return types.reduce((sum, type) => {
    const found = rows.filter(row => row.type === type)
    return sum + queriesPerGroup(type, found) * found.reduce((total, {groups}) => total + groups, 0)
  }, 0)
}

function queriesPerGroup(type: OldRecordType, found: readonly SurveyRow[]): number {
  if (type === 'usage') return 1
  const isMixed = found.some(({generation}) => generation === 5) && found.some(({generation}) => generation < 5)
  if (isMixed) return PLACES
  return found.some(({items, records}) => items > records) ? 1 : 0
}

/** What it takes to write the pending records of a row, in capacity units. */
export function writeUnits(row: SurveyRow): number {
  const {type, records, bytes} = row
  if (records === 0) return 0
  const unitsPerRecord = Math.ceil(bytes / records / BYTES_PER_WRITE_UNIT)
  return pendingRecords(row) * unitsPerRecord * WRITES_PER_RECORD[type]
}

const pendingRecords = ({items, records, pending}: SurveyRow): number => Math.ceil((pending * records) / items)

/** What it takes to record the layout. */
export const WRITES_PER_VERSION = WRITES_PER_RECORD.version

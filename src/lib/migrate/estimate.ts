import type {OldRecordType} from './records/classify.js'
import type {Survey} from './survey.js'
import type {SurveyRow} from './survey-counts.js'
import {CONFIGURATION, DATA, type StepId} from './walk/steps.js'

const BYTES_PER_READ_UNIT = 4096
const BYTES_PER_WRITE_UNIT = 1024

/** Of a copy: its keys contain the namespace, and it has a mark. */
const GROWTH = 1.5

/** With indexes. Limits are also added to a registry, in the same transaction. */
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

/** Two records in a transaction, which costs double, and their index entries. */
export const WRITES_PER_NAMESPACE = 8

/** Configuration, registry entry, audit event and checks of other levels, in one transaction. */
export const WRITES_PER_CONFIGURATION = 16

/** In the first pass locations are unknown, so all possible locations of entities and limits are read. */
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

/** Later passes read only the copy. */
const READS_PER_COMPARISON: Readonly<Record<OldRecordType, number>> = {
  ...READS_PER_COPY,
  entity: 1,
  limits: 1,
  settings: 1,
}

/** Its entity, at the new key and at the old one. */
const READS_PER_NEW_BUCKET = 2

const LOCATIONS = 3

export function readUnits(id: StepId, rows: readonly SurveyRow[], survey: Survey): number {
  const reads = id === 'catch-up' ? READS_PER_COMPARISON : READS_PER_COPY
  const comparisons = rows.reduce((total, row) => total + reads[row.type] * row.records, 0)
  const newBuckets = id === 'data' ? rows.filter(({type}) => type === 'bucket').map(pendingRecords) : []
  const entities = READS_PER_NEW_BUCKET * newBuckets.reduce((total, count) => total + count, 0)
  return scanUnits(id, survey) + comparisons + entities + queries(id, rows)
}

/** Includes copies: half of those that its own step writes, because their positions are random. */
function scanUnits(id: StepId, {bytes, old}: Survey): number {
  const ofConfiguration = copiedBytes(old, CONFIGURATION)
  const ofData = copiedBytes(old, DATA)
  const copiesRead: Partial<Record<StepId, number>> = {
    configuration: ofConfiguration / 2,
    data: ofConfiguration + ofData / 2,
    'catch-up': ofConfiguration + ofData,
  }
  return Math.ceil((bytes + (copiesRead[id] ?? 0)) / BYTES_PER_READ_UNIT)
}

function copiedBytes(old: readonly SurveyRow[], types: readonly OldRecordType[]): number {
  const moved = old.filter(({type}) => types.includes(type))
  return GROWTH * moved.reduce((sum, {bytes, pending, items}) => sum + (bytes * pending) / items, 0)
}

function queries(id: StepId, rows: readonly SurveyRow[]): number {
  // In the first pass, `READS_PER_COPY` includes the queries for limits.
  const types: readonly OldRecordType[] = id === 'catch-up' ? ['bucket', 'limits', 'usage'] : ['bucket', 'usage']
  return types.reduce((sum, type) => {
    const ofType = rows.filter(row => row.type === type)
    return sum + queriesPerGroup(type, ofType) * ofType.reduce((total, {groups}) => total + groups, 0)
  }, 0)
}

function queriesPerGroup(type: OldRecordType, rows: readonly SurveyRow[]): number {
  if (type === 'usage') return 1
  const isMixed = rows.some(({generation}) => generation === 5) && rows.some(({generation}) => generation < 5)
  if (isMixed) return LOCATIONS
  return rows.some(({items, records}) => items > records) ? 1 : 0
}

export function writeUnits(row: SurveyRow): number {
  const {type, records, bytes} = row
  if (records === 0) return 0
  const unitsPerRecord = Math.ceil(bytes / records / BYTES_PER_WRITE_UNIT)
  return pendingRecords(row) * unitsPerRecord * WRITES_PER_RECORD[type]
}

const pendingRecords = ({items, records, pending}: SurveyRow): number => Math.ceil((pending * records) / items)

export const WRITES_PER_VERSION = WRITES_PER_RECORD.version

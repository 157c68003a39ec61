import type {DeepReadonly} from '../core/deep-readonly.js'
import type {OldRecordType} from './records/classify.js'
import type {Survey, SurveyRow} from './survey.js'
import {CONFIGURATION, DATA, STEPS, type StepId} from './walk/steps.js'

/** Write units per second. */
export const DEFAULT_PACE = 1000

export type PlannedStep = Readonly<ReturnType<typeof planStep>>

export type MigrationPlan = DeepReadonly<ReturnType<typeof planMigration>>

export function planMigration(
  survey: Survey,
  writeUnitsPerSecond: number,
  {limitsFromBuckets = false}: {readonly limitsFromBuckets?: boolean} = {},
) {
  const counted = STEPS.map(step => {
    const isAsked = step.id !== 'limits' || limitsFromBuckets
    return {...step, items: isAsked ? itemsOf(step, survey) : 0}
  })
  const hasWork = counted.some(({items}) => items > 0)
  const copies = counted.some(({id, items}) => isCopyingStep(id) && items > 0)
  const steps = counted.map(step => planStep(step, survey, {hasWork, copies}))
  const conflicts = survey.old.reduce((total, row) => total + row.conflicts, 0)
  const sum = (of: (step: PlannedStep) => number) => steps.reduce((total, step) => total + of(step), 0)
  const allWrites = sum(step => step.writeUnits)
  return {
    steps,
    /** Work for a run, or for a user who resolves conflicts or configures limits. */
    isPending: hasWork || conflicts > 0 || survey.limitless.buckets > 0,
    /** Buckets without limits at any level. The user decides whether to write limits from the buckets. */
    limitless: survey.limitless.buckets,
    items: sum(({id, items}) => (isCopyingStep(id) ? items : 0)),
    conflicts,
    readUnits: sum(step => step.readUnits),
    writeUnits: allWrites,
    /** Duration of the writes, without catching up with traffic. */
    seconds: Math.ceil(allWrites / writeUnitsPerSecond),
    writeUnitsPerSecond,
    blockers: blockersOf(survey, conflicts),
    leftovers: survey.old.reduce((items, row) => items + row.items, 0),
  }
}

type StepShape = (typeof STEPS)[number]

interface PlannedRun {
  readonly hasWork: boolean
  readonly copies: boolean
}

const isCopyingStep = (id: StepId): boolean => STEPS.some(step => step.id === id && step.moves.length > 0)

function itemsOf(step: StepShape, survey: Survey): number {
  const {missing, registersDefault, schema, old} = survey
  switch (step.id) {
    case 'indexes':
      return missing.indexes.length + Number(missing.stream) + Number(missing.expiry)
    case 'namespaces':
      return Number(registersDefault)
    case 'version':
      // Current clients need no record, but a run writes one.
      return Number(!schema.isAccepted || (schema.current === undefined && old.length > 0))
    case 'limits':
      return configurationsOf(survey)
    case 'catch-up':
      return 0
    default:
      return rowsOf(step, survey).reduce((total, row) => total + row.pending, 0)
  }
}

const configurationsOf = ({limitless}: Survey): number =>
  limitless.resources.reduce((total, {common, exceptions}) => total + exceptions + Number(common !== undefined), 0)

/** `items`: old items to copy, or parts to add. */
function planStep(step: StepShape & {items: number}, survey: Survey, run: PlannedRun) {
  const {id, title, items} = step
  const isPending = items > 0 || (id === 'catch-up' && run.copies)
  const reads = readsTable(step, survey, run) ? readUnits(id, rowsOf(step, survey), survey) : 0
  return {id, title, isPending, items, readUnits: reads, writeUnits: writeUnitsOf(step, survey)}
}

function readsTable(
  {id, items}: StepShape & {items: number},
  {registersDefault, hasDefault}: Survey,
  {hasWork, copies}: PlannedRun,
): boolean {
  if (id === 'limits') return items > 0
  if (id === 'catch-up') return copies
  // The step stops at the first data without a namespace.
  if (id === 'namespaces') return hasWork && !hasDefault && !registersDefault
  return hasWork && isCopyingStep(id)
}

function writeUnitsOf(step: StepShape & {items: number}, survey: Survey): number {
  switch (step.id) {
    case 'namespaces':
      return step.items * WRITES_PER_NAMESPACE
    case 'version':
      return step.items * WRITES_PER_RECORD.version
    case 'limits':
      return step.items * WRITES_PER_CONFIGURATION
    case 'indexes':
    case 'catch-up':
      return 0
    default:
      return rowsOf(step, survey).reduce((total, row) => total + writeUnits(row), 0)
  }
}

const rowsOf = ({moves}: StepShape, {old}: Survey): SurveyRow[] =>
  old.filter(({type}) => (moves as readonly OldRecordType[]).includes(type))

function blockersOf({run, isRunning}: Survey, conflicts: number) {
  const blocker = (blocks: 'run' | 'cleanup', code: 'running' | 'conflicts', reason: string) => [{blocks, code, reason}]
  return [
    ...(run && isRunning ? blocker('run', 'running', `${run.owner} is migrating the table, in step ${run.step}`) : []),
    ...(conflicts > 0 ? blocker('cleanup', 'conflicts', `conflicts in ${conflicts} old items must be resolved`) : []),
  ]
}

const BYTES_PER_READ_UNIT = 4096
const BYTES_PER_WRITE_UNIT = 1024

/** A copy is larger: its keys contain the namespace, and it has a mark. */
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
const WRITES_PER_NAMESPACE = 8

/** Configuration, registry entry, audit event and checks of other levels, in one transaction. */
const WRITES_PER_CONFIGURATION = 16

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

function readUnits(id: StepId, rows: readonly SurveyRow[], survey: Survey): number {
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

function writeUnits(row: SurveyRow): number {
  const {type, records, bytes} = row
  if (records === 0) return 0
  const unitsPerRecord = Math.ceil(bytes / records / BYTES_PER_WRITE_UNIT)
  return pendingRecords(row) * unitsPerRecord * WRITES_PER_RECORD[type]
}

const pendingRecords = ({items, records, pending}: SurveyRow): number => Math.ceil((pending * records) / items)

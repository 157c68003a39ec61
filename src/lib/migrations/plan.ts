import type {OldRecordType} from './classify.js'
import {STEPS, type StepId} from './steps.js'
import type {Survey} from './survey.js'
import type {SurveyRow} from './survey-tally.js'

const BYTES_PER_READ_UNIT = 4096
const BYTES_PER_WRITE_UNIT = 1024

/** Write units a second to reckon with where nobody says otherwise. */
export const DEFAULT_PACE = 1000

/** Reads for one record: its old items with their neighbours, its new place, and the entity of a bucket. */
const READS_PER_RECORD: Readonly<Record<OldRecordType, number>> = {
  entity: 1,
  limits: 3,
  settings: 3,
  registry: 0,
  bucket: 7,
  usage: 2,
  audit: 1,
  version: 0,
}

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
const WRITES_PER_NAMESPACE = 8

export interface PlannedStep {
  readonly id: StepId
  readonly title: string
  /** Whether the step has something to do. */
  readonly isPending: boolean
  /** Old items to be moved, or parts to be added. */
  readonly items: number
  /** Estimates, in capacity units. */
  readonly readUnits: number
  readonly writeUnits: number
}

/** What stands in the way, and of what. */
export interface Blocker {
  readonly blocks: 'run' | 'cleanup'
  readonly code: 'running' | 'conflicts'
  readonly says: string
}

export interface MigrationPlan {
  readonly steps: readonly PlannedStep[]
  /** Whether there is something to do, for a run or for somebody who decides. */
  readonly isPending: boolean
  /** Old items to be moved. */
  readonly items: number
  /** Old items that differ from the new place, where somebody has to choose. */
  readonly conflicts: number
  readonly readUnits: number
  readonly writeUnits: number
  /** How long the writes take at `writeUnitsPerSecond`; catching up with traffic comes on top. */
  readonly seconds: number
  readonly writeUnitsPerSecond: number
  readonly blockers: readonly Blocker[]
  /** Old items that `cleanup` may delete once everything is moved. */
  readonly leftovers: number
}

/** The steps of a migration with estimates, from what a survey found; pure. */
export function planMigration(survey: Survey, writeUnitsPerSecond: number): MigrationPlan {
  const counted = STEPS.map(step => ({...step, items: itemsOf(step, survey)}))
  const isRunDue = counted.some(({items}) => items > 0)
  const steps = counted.map(step => planStep(step, survey, isRunDue))
  const conflicts = survey.old.reduce((total, row) => total + row.conflicts, 0)
  const sum = (of: (step: PlannedStep) => number) => steps.reduce((total, step) => total + of(step), 0)
  const writeUnits = sum(step => step.writeUnits)
  return {
    steps,
    isPending: isRunDue || conflicts > 0,
    items: sum(({id, items}) => (isMove(id) ? items : 0)),
    conflicts,
    readUnits: sum(step => step.readUnits),
    writeUnits,
    seconds: Math.ceil(writeUnits / writeUnitsPerSecond),
    writeUnitsPerSecond,
    blockers: blockersOf(survey, conflicts),
    leftovers: survey.old.reduce((items, row) => items + row.items, 0),
  }
}

type StepShape = (typeof STEPS)[number]

const isMove = (id: StepId): boolean => STEPS.some(step => step.id === id && step.moves.length > 0)

/** Parts to add, or old items to move. What there is to catch up with, nobody knows before. */
function itemsOf(step: StepShape, survey: Survey): number {
  const {missing, registersDefault, schema, old} = survey
  switch (step.id) {
    case 'indexes':
      return missing.indexes.length + Number(missing.stream) + Number(missing.expiry)
    case 'namespaces':
      return Number(registersDefault)
    case 'version':
      return Number(!schema.isAccepted || (schema.current === undefined && old.length > 0))
    case 'catch-up':
      return 0
    default:
      return rowsOf(step, survey).reduce((total, row) => total + row.pending, 0)
  }
}

/** A run goes through the whole table in every step that moves records, and at least once more to catch up. */
function planStep(step: StepShape & {items: number}, survey: Survey, isRunDue: boolean): PlannedStep {
  const {id, title, items} = step
  const isPending = items > 0 || (id === 'catch-up' && isRunDue && survey.old.length > 0)
  const looks = rowsOf(step, survey).reduce((total, {type, records}) => total + READS_PER_RECORD[type] * records, 0)
  const readUnits = isRunDue && isMove(id) ? scanUnits(survey) + looks : 0
  return {id, title, isPending, items, readUnits, writeUnits: writeUnitsOf(step, survey)}
}

function writeUnitsOf(step: StepShape & {items: number}, survey: Survey): number {
  switch (step.id) {
    case 'namespaces':
      return step.items * WRITES_PER_NAMESPACE
    case 'version':
      return step.items * WRITES_PER_RECORD.version
    case 'indexes':
    case 'catch-up':
      return 0
    default:
      return rowsOf(step, survey).reduce((total, row) => total + rowUnits(row), 0)
  }
}

const rowsOf = ({moves}: StepShape, {old}: Survey): SurveyRow[] =>
  old.filter(({type}) => (moves as readonly OldRecordType[]).includes(type))

const scanUnits = ({bytes}: Survey): number => Math.ceil(bytes / BYTES_PER_READ_UNIT)

function rowUnits({type, items, records, bytes, pending}: SurveyRow): number {
  if (records === 0) return 0
  const unitsPerRecord = Math.ceil(bytes / records / BYTES_PER_WRITE_UNIT)
  return Math.ceil((pending * records) / items) * unitsPerRecord * WRITES_PER_RECORD[type]
}

function blockersOf({run, isRunning}: Survey, conflicts: number): Blocker[] {
  const blockers: Blocker[] = []
  if (run && isRunning) {
    blockers.push({blocks: 'run', code: 'running', says: `${run.owner} is at it, in step ${run.step}`})
  }
  if (conflicts > 0) {
    blockers.push({blocks: 'cleanup', code: 'conflicts', says: `somebody has to decide about ${conflicts} old items`})
  }
  return blockers
}

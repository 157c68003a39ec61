import {readUnits, WRITES_PER_NAMESPACE, WRITES_PER_VERSION, writeUnits} from './estimate.js'
import type {OldRecordType} from './records/classify.js'
import type {Survey} from './survey.js'
import type {SurveyRow} from './survey-tally.js'
import {STEPS, type StepId} from './walk/steps.js'

/** Write units a second to reckon with where nobody says otherwise. */
export const DEFAULT_PACE = 1000

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
  const isDue = counted.some(({items}) => items > 0)
  const moves = counted.some(({id, items}) => isMove(id) && items > 0)
  const steps = counted.map(step => planStep(step, survey, {isDue, moves}))
  const conflicts = survey.old.reduce((total, row) => total + row.conflicts, 0)
  const sum = (of: (step: PlannedStep) => number) => steps.reduce((total, step) => total + of(step), 0)
  const allWrites = sum(step => step.writeUnits)
  return {
    steps,
    isPending: isDue || conflicts > 0,
    items: sum(({id, items}) => (isMove(id) ? items : 0)),
    conflicts,
    readUnits: sum(step => step.readUnits),
    writeUnits: allWrites,
    seconds: Math.ceil(allWrites / writeUnitsPerSecond),
    writeUnitsPerSecond,
    blockers: blockersOf(survey, conflicts),
    leftovers: survey.old.reduce((items, row) => items + row.items, 0),
  }
}

type StepShape = (typeof STEPS)[number]

/** Whether there is something to do, and whether records are part of it. */
interface RunShape {
  readonly isDue: boolean
  readonly moves: boolean
}

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
      // Clients of today do without a record; a run writes one all the same.
      return Number(!schema.isAccepted || (schema.current === undefined && old.length > 0))
    case 'catch-up':
      return 0
    default:
      return rowsOf(step, survey).reduce((total, row) => total + row.pending, 0)
  }
}

/** A run goes through the whole table in each step that copies, and once more when they had something to write. */
function planStep(step: StepShape & {items: number}, survey: Survey, run: RunShape): PlannedStep {
  const {id, title, items} = step
  const isPending = items > 0 || (id === 'catch-up' && run.moves)
  const reads = walks(id, survey, run) ? readUnits(id, rowsOf(step, survey), survey) : 0
  return {id, title, isPending, items, readUnits: reads, writeUnits: writeUnitsOf(step, survey)}
}

/** Whether a step goes through the whole table. */
function walks(id: StepId, {registersDefault, hasDefault}: Survey, {isDue, moves}: RunShape): boolean {
  if (id === 'catch-up') return moves
  // In search of data without a namespace, the first of which ends it.
  if (id === 'namespaces') return isDue && !hasDefault && !registersDefault
  return isDue && isMove(id)
}

function writeUnitsOf(step: StepShape & {items: number}, survey: Survey): number {
  switch (step.id) {
    case 'namespaces':
      return step.items * WRITES_PER_NAMESPACE
    case 'version':
      return step.items * WRITES_PER_VERSION
    case 'indexes':
    case 'catch-up':
      return 0
    default:
      return rowsOf(step, survey).reduce((total, row) => total + writeUnits(row), 0)
  }
}

const rowsOf = ({moves}: StepShape, {old}: Survey): SurveyRow[] =>
  old.filter(({type}) => (moves as readonly OldRecordType[]).includes(type))

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

import type {OldRecordType} from '../records/classify.js'

/** One part of a migration. All of them may be done again at any time: what is done already stays as it is. */
export interface Step {
  readonly id: StepId
  /** What it does, for people. */
  readonly title: string
  /** The old records it moves; none for the steps that are about the table as a whole. */
  readonly moves: readonly OldRecordType[]
}

/**
 * What clients need before they make a bucket. They are let in as soon as a run has begun, so it goes first; everything
 * else shares one walk through the table, because a walk pays for every item, wanted or not.
 */
export const CONFIGURATION: readonly OldRecordType[] = ['entity', 'limits', 'settings', 'registry']

/** What only they themselves write. */
export const DATA: readonly OldRecordType[] = ['bucket', 'usage', 'audit']

/** In the order in which they are done. */
export const STEPS = [
  {id: 'indexes', title: 'Add the indexes that are missing', moves: []},
  {id: 'namespaces', title: 'Register the namespace "default"', moves: []},
  {id: 'configuration', title: 'Copy entities and limits', moves: CONFIGURATION},
  {id: 'data', title: 'Copy buckets, usage, audit events', moves: DATA},
  {id: 'catch-up', title: 'Catch up with later changes', moves: [...CONFIGURATION, ...DATA]},
  {id: 'version', title: 'Record the new layout', moves: []},
] as const satisfies readonly {id: string; title: string; moves: readonly OldRecordType[]}[]

export type StepId = (typeof STEPS)[number]['id']

export const STEP_IDS: readonly StepId[] = STEPS.map(({id}) => id)

/** What sort keys begin with that a step has no use for, of records that there are many of. */
export const sortKeysLeftOut = ({id}: Step): readonly string[] => (id === 'configuration' ? ['#USAGE#', '#AUDIT#'] : [])

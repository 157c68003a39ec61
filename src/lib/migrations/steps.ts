import type {OldRecordType} from './classify.js'

/** One part of a migration. All of them may be done again at any time: what is done already stays as it is. */
export interface Step {
  readonly id: StepId
  /** What it does, for people. */
  readonly title: string
  /** The old records it moves; none for the steps that are about the table as a whole. */
  readonly moves: readonly OldRecordType[]
}

const ALL_MOVED: readonly OldRecordType[] = ['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit']

/** In the order in which they are done. */
export const STEPS = [
  {id: 'indexes', title: 'Add the indexes that the table lacks', moves: []},
  {id: 'namespaces', title: 'Register the namespace "default"', moves: []},
  {id: 'entities', title: 'Copy entities', moves: ['entity']},
  {id: 'limits', title: 'Copy limits', moves: ['limits', 'settings', 'registry']},
  {id: 'buckets', title: 'Copy buckets', moves: ['bucket']},
  {id: 'usage', title: 'Copy usage', moves: ['usage']},
  {id: 'audit', title: 'Copy audit events', moves: ['audit']},
  {id: 'catch-up', title: 'Catch up with what changed meanwhile', moves: ALL_MOVED},
  {id: 'version', title: 'Record the new layout', moves: []},
] as const satisfies readonly {id: string; title: string; moves: readonly OldRecordType[]}[]

export type StepId = (typeof STEPS)[number]['id']

export const STEP_IDS: readonly StepId[] = STEPS.map(({id}) => id)

/** What sort keys of records begin with that there are many of. */
const SORT_KEYS: Readonly<Partial<Record<OldRecordType, readonly string[]>>> = {
  entity: ['#META'],
  limits: ['#LIMIT#', '#CONFIG'],
  bucket: ['#BUCKET#', '#STATE'],
  usage: ['#USAGE#'],
  audit: ['#AUDIT#'],
}

/** The sort keys that a step has no use for. */
export function sortKeysLeftOut({moves}: Step): string[] {
  return Object.entries(SORT_KEYS).flatMap(([type, prefixes]) =>
    moves.includes(type as OldRecordType) ? [] : [...prefixes],
  )
}

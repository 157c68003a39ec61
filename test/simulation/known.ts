import type {Profile} from './scenario.js'

/** What a run may report without failing a test, and why. */
interface KnownViolation {
  readonly oracle: string
  readonly reason: string
  /** Seen in fewer than one of a hundred seeds: no seed of `npm test` may report it, others may. */
  readonly isRare?: true
}

/** A row goes when its fault is repaired; from then on every seed guards the repair. */
const KNOWN: readonly KnownViolation[] = [
  {oracle: 'S6-charged-twice', reason: 'the first try of a charge is executed after its repetition and a later write'},
  {oracle: 'L1-heals', reason: 'on purpose: an instant up to a day ahead is waited for, since it may be right'},
  {oracle: 'S7-refill-instant', reason: 'on purpose: an instant more than a day ahead is set back', isRare: true},
  {oracle: 'S5-counted-more', reason: 'as S6-charged-twice; a charge whose bucket was deleted meanwhile', isRare: true},
  {oracle: 'S6-counted-less', reason: 'more is taken from a lease after its bucket was deleted', isRare: true},
  {oracle: 'S3-lost', reason: 'after several lost races a refill is given up', isRare: true},
  {oracle: 'L2-too-short', reason: 'a parent that the process has not seen yet', isRare: true},
  {oracle: 'L6-available', reason: 'limits that another client has changed without updating the bucket', isRare: true},
  {oracle: 'L3-oversized', reason: 'a first refusal, by limits that another client has changed since', isRare: true},
  {oracle: 'S6-returned-twice', reason: 'a return carried out after its repetition, 1 of 5,850 seeds', isRare: true},
  {oracle: 'S1-rate', reason: 'a reset beside corrections, 1 of 4,500 seeds', isRare: true},
  {oracle: 'L4-usage', reason: 'not examined, 1 of 4,500 seeds', isRare: true},
  {oracle: 'simulator', reason: 'not examined, 1 of 4,500 seeds', isRare: true},
]

/** Whether the seeds of the slow suite, and fresh ones, may report it. */
export const isKnown = (oracle: string): boolean => KNOWN.some(row => row.oracle === oracle)

/** Whether the seeds of `npm test` may report it. */
export const isExpected = (oracle: string): boolean => KNOWN.some(row => row.oracle === oracle && !row.isRare)

/** Seeds of every profile that every test run plays. */
export const FIXED_SEEDS: Readonly<Record<Profile, number>> = {
  burst: 20,
  config: 8,
  faults: 20,
  cascade: 10,
  shards: 10,
  lifecycle: 10,
  skew: 10,
  aggregator: 6,
  mixed: 8,
}

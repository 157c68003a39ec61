import type {Profile} from './scenario.js'

/** A fault that the code is known to have: what finds it, and what it is called in the plan for its repair. */
interface KnownFault {
  readonly oracle: string
  readonly fault: string
}

/**
 * Violations that a run may report without failing a test. A row goes when its fault is repaired; from then on every seed
 * guards the repair.
 */
const KNOWN: readonly KnownFault[] = [
  {oracle: 'S9-stale-limits', fault: 'a lowered limit comes back and stays'},
  {oracle: 'L6-available', fault: 'a lowered limit comes back and stays'},
  {oracle: 'S1-rate', fault: 'twice the capacity when several processes meet a rested bucket'},
  {oracle: 'S6-counted-less', fault: 'tokens returned twice; returns to a bucket that was re-created'},
  {oracle: 'S6-returned-twice', fault: 'the first try of a return is executed after its repetition and a later write'},
  {oracle: 'S6-charged-twice', fault: 'the first try of a charge is executed after its repetition and a later write'},
  {oracle: 'S5-counted-more', fault: 'the first try of a charge is executed after its repetition and a later write'},
  {oracle: 'L4-stalled', fault: 'one acquire-only tenant stops usage counting for all'},
  {oracle: 'S11-purged', fault: 'a purged namespace is written to again'},
  {oracle: 'L5-hang', fault: 'one slow-dripping answer wedges a limiter'},
  {oracle: 'L5-late', fault: 'one slow-dripping answer wedges a limiter'},
  {oracle: 'L2-too-short', fault: 'retry-after too short'},
  {oracle: 'L2-infinite', fault: 'a split between two looks gives Retry-After: Infinity'},
  {oracle: 'L3-oversized', fault: "a request above the parent's capacity is told to wait"},
  {oracle: 'L1-heals', fault: 'a refill instant in the future freezes a bucket'},
  {oracle: 'L6-internal-error', fault: 'internal errors reach callers'},
]

const known = new Set(KNOWN.map(({oracle}) => oracle))

export const isKnown = (oracle: string): boolean => known.has(oracle)

/** Seeds of every profile that every test run plays. */
export const FIXED_SEEDS: Readonly<Record<Profile, number>> = {
  burst: 40,
  config: 15,
  faults: 40,
  cascade: 20,
  shards: 20,
  lifecycle: 20,
  skew: 20,
  aggregator: 12,
  mixed: 15,
}

import {PROFILES, type Profile} from '../scenario.js'

/** Profiles that probably find the faults of a file, by part of its path; the first match counts. */
const LIKELY: readonly (readonly [part: string, profiles: readonly Profile[]])[] = [
  ['reserv', ['reservations']],
  ['holder', ['holders', 'reservations']],
  ['slot', ['holders']],
  ['bucket-item', ['holders', 'faults']],
  ['aggregator/rollup', ['rollups']],
  ['usage/sum', ['rollups']],
  ['aggregator/', ['aggregator', 'mixed']],
  ['kind-refill', ['quotas', 'shards']],
  ['kind', ['quotas']],
  ['calendar', ['quotas']],
  ['quota', ['quotas']],
  ['session', ['quotas']],
  ['switch', ['quotas']],
  ['bypass', ['bypass']],
  ['shards', ['shards']],
  ['split', ['shards']],
  ['gather', ['shards']],
  ['joint', ['shards']],
  ['marked', ['faults', 'skew', 'bypass']],
  ['buckets/writes', ['holders', 'faults', 'skew', 'burst', 'config']],
  ['consume-write', ['burst', 'faults', 'config']],
  ['buckets/plan', ['config', 'skew']],
  ['tally', ['faults', 'burst']],
  ['known-bucket', ['burst', 'cascade', 'quotas']],
  ['settlements', ['faults', 'lifecycle', 'quotas']],
  ['namespace-limiter', ['cascade', 'family']],
  ['family', ['family']],
  ['feedback', ['feedback']],
  ['report-feedback', ['feedback']],
  ['operations', ['lifecycle', 'quotas']],
  ['lease', ['lifecycle', 'faults', 'bypass', 'reservations']],
  ['bucket-queue', ['cascade', 'faults', 'lifecycle']],
]

/** All profiles: first the likely ones for a file, then the others. */
export function profilesFor(file: string): readonly [likely: readonly Profile[], others: readonly Profile[]] {
  const likely = LIKELY.find(([part]) => file.includes(part))?.[1] ?? ['burst', 'faults']
  return [likely, PROFILES.filter(profile => !likely.includes(profile))]
}

import {groupBy} from '../../core/group-by.js'
import {printableLines} from '../../core/text/printable.js'
import {type LiveLevel, levelsAt} from '../model/levels.js'
import {type FindReading, type Reading, ROW_STATUSES} from '../model/model.js'
import {statusAt} from '../model/status.js'
import {resourcesAt} from '../model/totals.js'
import type {PollResult} from '../poll/poller.js'

/** Keeps the resources with most buckets. Callers of a service may choose resource names, so the number is bounded. */
const MOST_RESOURCES = 200

/** By resource and limit, never by entity. docs/observing.md lists the metrics. `lagMs` is `undefined` if unknown. */
export function bucketMetrics(
  {readings, known, lastPoll}: Pick<PollResult, 'readings' | 'known' | 'lastPoll'>,
  nowMs: number,
  {namespace, lagMs}: {readonly namespace: string; readonly lagMs: number | undefined},
): MetricFamily[] {
  const find: FindReading = id => readings.get(id)
  const live = [...readings.values()].filter(({isGone}) => !isGone)
  const rows = resourcesAt(live, nowMs, find)
    .toSorted((a, b) => b.entities - a.entities)
    .slice(0, MOST_RESOURCES)
    .toSorted((a, b) => (a.resource < b.resource ? -1 : 1))
  const named = new Set(rows.map(({resource}) => resource))
  const of = (labels: MetricSample['labels'], value: number): MetricSample => ({labels: {namespace, ...labels}, value})
  const perLimit = (isInFlight: boolean, amount: (limit: LiveLevel) => number): MetricSample[] =>
    rows.flatMap(({resource, limits}) => {
      const chosen = limits.filter(({inFlight = false}) => inFlight === isInFlight)
      return chosen.map(limit => of({resource, limit: limit.name}, amount(limit)))
    })
  const oldestMs = live.reduce((age, {readAtMs}) => Math.max(age, nowMs - readAtMs), 0)
  const isRated = live.some(({requests}) => requests.refusedPerSecond)
  return [
    family('zael_buckets', 'Buckets read, by status.', statusSamples(live, nowMs, find, named, of)),
    family('zael_buckets_known', 'Buckets that the index lists.', [of({}, known.count)]),
    family('zael_buckets_read', 'Buckets included in the other metrics.', [of({}, live.length)]),
    family('zael_buckets_unreadable', 'Listed buckets with unreadable items, included in no other metric.', [
      of({}, known.unreadable),
    ]),
    family('zael_resources_unlisted', `Resources beyond the ${MOST_RESOURCES} with most buckets.`, [
      of({}, new Set(live.map(({bucket}) => bucket.resource)).size - named.size),
    ]),
    ...OF_LIMITS.map(([name, help, isInFlight, amount]) => family(name, help, perLimit(isInFlight, amount))),
    family(
      'zael_fill_ratio_min',
      'Fraction of the capacity left, in tokens or slots, in the emptiest bucket.',
      emptiest(live, nowMs, named).map(({resource, limit, ratio}) => of({resource, limit}, ratio)),
    ),
    family(
      'zael_tokens_consumed_per_second',
      'Consumption between the last two readings.',
      rows.flatMap(({resource, ratePerSecond}) =>
        [...ratePerSecond].map(([limit, rate]) => of({resource, limit}, rate)),
      ),
    ),
    family(
      'zael_requests_refused_per_second',
      'Refused requests, over ten seconds or the time between two readings.',
      isRated ? rows.map(({resource, refusedPerSecond}) => of({resource}, refusedPerSecond)) : [],
    ),
    family(
      'zael_aggregator_lag_seconds',
      'Age of the oldest change not yet counted as usage.',
      lagMs === undefined ? [] : [{labels: {}, value: lagMs / 1000}],
    ),
    family('zael_reading_age_seconds', 'Age of the oldest reading of a bucket.', [
      of({}, Math.max(0, oldestMs) / 1000),
    ]),
    family('zael_read_units', 'Read units of the last poll.', [of({}, lastPoll.readUnits)]),
  ]
}

const OF_LIMITS: readonly (readonly [
  name: string,
  help: string,
  isInFlight: boolean,
  amount: (limit: LiveLevel) => number,
])[] = [
  ['zael_tokens_available', 'Tokens left in all buckets read.', false, ({level}) => level],
  ['zael_tokens_capacity', 'Capacity of all buckets read.', false, ({capacity}) => capacity],
  ['zael_tokens_debt', 'Tokens below zero in all buckets read.', false, ({debt}) => debt],
  [
    'zael_slots_in_use',
    'Slots of in-flight limits in use, in all buckets read.',
    true,
    each => each.capacity - each.level,
  ],
  ['zael_slots_capacity', 'Slots of in-flight limits, in all buckets read.', true, ({capacity}) => capacity],
]

const family = (name: string, help: string, samples: readonly MetricSample[]): MetricFamily => ({name, help, samples})

function statusSamples(
  live: readonly Reading[],
  nowMs: number,
  find: FindReading,
  named: ReadonlySet<string>,
  of: (labels: MetricSample['labels'], value: number) => MetricSample,
): MetricSample[] {
  const found = live.filter(({bucket}) => named.has(bucket.resource))
  const same = groupBy(found, reading => `${reading.bucket.resource}#${statusAt(reading, nowMs, find).status}`)
  // Includes statuses without buckets: a series that comes and goes is hard to compare.
  const statuses = ROW_STATUSES.filter(status => status !== 'gone')
  return [...named].flatMap(resource =>
    statuses.map(status => of({resource, status}, same.get(`${resource}#${status}`)?.length ?? 0)),
  )
}

function emptiest(live: readonly Reading[], nowMs: number, named: ReadonlySet<string>) {
  const lowest = new Map<string, {resource: string; limit: string; ratio: number}>()
  for (const {bucket} of live) {
    const {resource} = bucket
    if (!named.has(resource)) continue
    for (const {name: limit, level, capacity} of levelsAt(bucket, nowMs)) {
      if (capacity <= 0) continue
      const ratio = level / capacity
      const key = `${resource}#${limit}`
      if (ratio < (lowest.get(key)?.ratio ?? Number.POSITIVE_INFINITY)) lowest.set(key, {resource, limit, ratio})
    }
  }
  return [...lowest].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, found]) => found)
}

export interface MetricSample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Always a gauge: buckets come and go. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly samples: readonly MetricSample[]
}

export const EXPOSITION_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

export function expositionText(families: readonly MetricFamily[]): string {
  return families
    .filter(({samples}) => samples.length > 0)
    .map(({name, help, samples}) => {
      const lines = samples.map(({labels, value}) => `${name}${labelText(labels)} ${value}`)
      return `# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n# TYPE ${name} gauge\n${lines.join('\n')}\n`
    })
    .join('')
}

function labelText(labels: MetricSample['labels']): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

/** Escapes control characters too: the text may be printed on a terminal. */
const escaped = (value: string): string =>
  printableLines(value).replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

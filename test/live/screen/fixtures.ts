import type {HealthLine, Reading} from '../../../src/lib/live/model/model.js'
import {bucketOf, READ_AT_MS, readingOf} from '../support.js'

const used = Array.from({length: 40}, (_, index) => (index % 13 === 5 ? null : (index % 9) / 8))

/** One of each: over, in debt, near, unequal shards, hot, full history, gone. */
export const SAMPLE: readonly Reading[] = [
  readingOf(
    bucketOf('team-research#gpt-4', {
      limits: {tpm: {capacity: 100_000, left: 12_345, refillPerSecond: 1000}, rpm: {capacity: 60, left: 30}},
      parent: 'org-1',
    }),
    {chargedTo: 'org-1#gpt-4', ratePerSecond: new Map([['tpm', 2500]]), writePressures: new Map([[0, 0]]), used},
  ),
  readingOf(bucketOf('user-debt#gpt-4', {limits: {tpm: {capacity: 100_000, left: -25_000, refillPerSecond: 100}}}), {
    ratePerSecond: new Map([['tpm', 0]]),
    used: [0.5, 1, 1.25],
  }),
  readingOf(bucketOf('user-empty#search', {limits: {rps: {capacity: 10, left: 0, refillPerSecond: 0.1}}}), {
    ratePerSecond: new Map([['rps', 4]]),
    used: [1, 1, 1],
  }),
  readingOf(
    bucketOf(
      'hot-key#search',
      {limits: {rps: {capacity: 2000, left: 900, refillPerSecond: 20}}},
      {limits: {rps: {capacity: 2000, left: 300, refillPerSecond: 20}}},
    ),
    {
      ratePerSecond: new Map([['rps', 10]]),
      writePressure: 0.86,
      writePressures: new Map([
        [0, 0.86],
        [1, 0.14],
      ]),
      used: [0.1, 0.2, 0.4],
    },
  ),
  readingOf(bucketOf('user-fresh#a-resource-with-a-long-name', {limits: {rpm: {capacity: 60}}})),
  readingOf(bucketOf('user-gone#gpt-4', {limits: {tpm: {capacity: 1000}}}), {isGone: true}),
]

export const HEALTH: readonly HealthLine[] = [
  {name: 'stream', state: 'ok', text: '12 records behind, the oldest 2 s old'},
  {name: 'aggregator', state: 'warn', text: '3 records refused in the last minute'},
  {name: 'table', state: 'bad', text: '14 throttled writes in the last five minutes'},
  {name: 'alarms', state: 'unknown', text: 'CloudWatch is not asked for a local stack'},
]

/** The detail of the first sample. */
export const DETAIL = {
  id: 'team-research#gpt-4',
  loadedAtMs: READ_AT_MS,
  parents: [
    readingOf(bucketOf('org-1#gpt-4', {limits: {tpm: {capacity: 1_000_000, left: 400_000, refillPerSecond: 1}}})),
  ],
  limits: [
    {name: 'rpm', text: '60/min', source: 'system'},
    {name: 'tpm', text: '100000/min', source: 'entity'},
  ],
  inFlight: [],
  units: new Map<string, string>(),
  usage: [
    {start: '2027-01-15T08:00:00Z', counters: {tpm: 120_345, rpm: 41}, requests: 41, refused: 7},
    {start: '2027-01-15T07:00:00Z', counters: {tpm: 98_000}, requests: null, refused: 0},
  ],
  audit: [
    {
      namespace: 'default',
      entity: 'team-research',
      eventId: '01',
      timestamp: '2027-01-14T09:30:00Z',
      action: 'limits_set',
      principal: 'alice\u001b[2J',
      resource: 'gpt-4',
      details: {},
      ttlSeconds: undefined,
    },
  ],
  problems: ['usage: the request was throttled'],
} as const

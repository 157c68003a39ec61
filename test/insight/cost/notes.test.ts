import {expect, it} from 'vitest'
import {daysUntil} from '../../../src/lib/insight/cost/daily-counts.js'
import {costSettings} from '../../../src/lib/insight/cost/measured.js'
import {type NoteSources, notesOn} from '../../../src/lib/insight/cost/report.js'

const DAYS = daysUntil(Date.UTC(2026, 10, 15, 12), 1)

/** A local stack of which nothing is counted. */
const SOURCES: NoteSources = {
  facts: {
    tableBytes: 0,
    indexBytes: 0,
    hasRecovery: false,
    provisioned: null,
    isInfrequentAccess: false,
    indexes: [],
    copiesToIndex: false,
    hasStream: true,
    replicas: [],
  },
  stack: {
    region: null,
    settings: costSettings({}),
    monitoring: {alarmMetrics: 0, dashboards: 0, functionMetrics: 0, isMeasured: false},
    days: new Map(),
    metrics: 0,
    unread: [],
  },
  counted: {days: new Map(), unread: [], hasAllResources: true},
  averaged: [],
  runsAggregator: undefined,
}

it.each([
  [false, 'the local stack runs with --no-aggregator. Restart it without this flag.', null],
  [true, 'there was no traffic.', null],
  [undefined, 'there was no traffic, or the aggregator does not run.', 'zael status'],
])('explains why nothing is counted although the aggregator runs: %s', (runsAggregator, why, fix) => {
  const unknown = 'No usage is recorded in these days, so the number of decisions is unknown'
  expect(notesOn({...SOURCES, runsAggregator})[0]).toEqual({message: `${unknown}: ${why}`, fix})
})

it('does not mention the aggregator if some day is counted, or was not read', () => {
  const days = new Map([['2026-11-14', {admitted: 1, refused: 0, perBucket: [1]}]])
  for (const counted of [{days}, {unread: ['2026-11-14']}]) {
    const notes = notesOn({...SOURCES, counted: {...SOURCES.counted, ...counted}, runsAggregator: false})
    expect(notes.filter(({message}) => message.includes('aggregator'))).toEqual([])
  }
})

it('names the costs that estimates exclude, and says that today is incomplete', () => {
  const messages = notesOn({...SOURCES, averaged: DAYS.slice(1)}).map(({message}) => message)
  expect(messages).toContainEqual(
    expect.stringMatching(/^Estimates count .* They omit .* monthly usage, .* reads of services\.$/),
  )
  expect(messages).toContain('No completed day has figures. These figures cover today so far.')
})

it('names the source of prices for another region and table class', () => {
  const notes = notesOn({
    ...SOURCES,
    facts: {...SOURCES.facts, isInfrequentAccess: true},
    stack: {...SOURCES.stack, region: 'eu-central-1'},
  })
  expect(notes.slice(-2)).toEqual([
    {message: 'Prices are for us-east-1; the stack is in eu-central-1.', fix: null},
    {message: 'Prices are for the table class Standard; the table has Standard-IA.', fix: null},
  ])
})

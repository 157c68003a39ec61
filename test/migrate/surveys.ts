import {NOTHING_LIMITLESS} from '../../src/lib/migrate/limitless/tally.js'
import type {OldGeneration, OldRecordType} from '../../src/lib/migrate/records/classify.js'
import type {Survey, SurveyRow} from '../../src/lib/migrate/survey.js'

/** A survey of a table of the current layout, with some changes. */
export function surveyOf(part: Partial<Survey> = {}): Survey {
  return {
    items: 10,
    bytes: 5000,
    old: [],
    current: {version: 1, namespace: 2},
    features: new Map(),
    release: '0.9.0',
    unknown: {items: 0, keys: []},
    conflicts: [],
    schema: {current: '0.9.0', legacy: undefined, isAccepted: true},
    missing: {indexes: [], stream: false, expiry: false},
    registersDefault: false,
    hasDefault: true,
    run: undefined,
    isRunning: false,
    limitless: NOTHING_LIMITLESS,
    ...part,
  }
}

export function row(type: OldRecordType, generation: OldGeneration, part: Partial<SurveyRow> = {}): SurveyRow {
  return {
    type,
    generation,
    releases: '0.6–0.9',
    items: 1,
    records: part.items ?? 1,
    groups: part.records ?? part.items ?? 1,
    bytes: 500,
    pending: 0,
    conflicts: 0,
    expired: 0,
    ...part,
  }
}

/** A table of 0.9 in the middle of its migration, with a value in every field. */
export function wholeTable(): Survey {
  return surveyOf({
    items: 12_345,
    bytes: 6_200_000,
    old: [
      row('usage', 1, {items: 6000, bytes: 2_000_000, pending: 5800, expired: 200, releases: '0.1–0.9'}),
      row('entity', 2, {items: 1200, bytes: 300_000, conflicts: 2}),
      row('audit', 2, {items: 3000, bytes: 1_500_000, pending: 3000}),
      row('limits', 4, {items: 140, bytes: 70_000, releases: '0.8–0.9'}),
      row('bucket', 4, {items: 1500, bytes: 700_000, pending: 900, expired: 20, releases: '0.9'}),
      row('version', 4, {items: 1, bytes: 200, pending: 1, releases: '0.8–0.9'}),
    ],
    unknown: {items: 23, keys: ['LOCK#deploy #META', 'ENTITY#user-1 #NOTE']},
    conflicts: [{key: 'ENTITY#user-1 #META', reason: 'changed in both layouts'}],
    schema: {current: undefined, legacy: '0.8.0', isAccepted: false},
    missing: {indexes: ['GSI4'], stream: false, expiry: true},
    run: {
      runId: 'r1',
      owner: 'ops@bastion',
      leaseUntilMs: 2_000_000_000_000,
      step: 'data',
      position: undefined,
      pass: 1,
      passWrites: 0,
      counts: {},
      startedAt: '2026-11-01T10:00:00Z',
      finishedAt: undefined,
      earlierFinishedAt: undefined,
      failure: undefined,
      verifiedAt: undefined,
    },
    isRunning: true,
  })
}

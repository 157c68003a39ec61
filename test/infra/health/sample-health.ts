import {findingsOf} from '../../../src/lib/infra/health/findings.js'
import type {StackHealth} from '../../../src/lib/infra/health/health.js'
import {assessHealth, type HealthParts, type UnknownPart} from '../../../src/lib/infra/health/parts.js'
import {AGGREGATOR_MARK} from '../../../src/lib/repository/table/version-compatibility.js'

/** All parts of a healthy stack. */
export const WELL = {
  cloudFormation: {
    status: 'UPDATE_COMPLETE',
    statusReason: null,
    role: null,
    terminationProtection: false,
    owner: 'zael',
    version: '0.1.0',
    schemaVersion: '0.9.0',
    createdAt: '2026-10-01T08:00:00Z',
    updatedAt: '2026-11-01T08:00:00Z',
    parameters: {
      chosen: [
        {name: 'LambdaMemorySize', value: '1024', default: '512'},
        {name: 'EnableTracing', value: 'true', default: 'false'},
      ],
      missing: [],
      unknown: [],
    },
    outputs: {
      TableName: 'prod',
      AggregatorFunctionName: 'prod-aggregator',
      LambdaErrorRateAlarmName: 'prod-aggregator-errors',
      AcquireOnlyPolicyArn: 'arn:aws:iam::123456789012:policy/prod-acq',
      FullAccessPolicyArn: 'arn:aws:iam::123456789012:policy/prod-full',
    },
  },
  table: {
    status: 'ACTIVE',
    items: 12_345,
    bytes: 3_210_000,
    createdAt: '2026-10-01T08:00:00Z',
    stream: 'NEW_AND_OLD_IMAGES',
    streamArn: 'arn:aws:dynamodb:eu-west-1:123456789012:table/prod/stream/2026-10-01T08:00:00.000',
    expiry: true,
    pointInTimeRecovery: true,
    deletionProtection: true,
    throughput: {maxReads: null, maxWrites: null, warmReads: 12_000, warmWrites: 4_000},
    replicas: [],
    indexes: [
      {name: 'GSI1', status: 'ACTIVE', projection: 'ALL'},
      {name: 'GSI2', status: 'ACTIVE', projection: 'KEYS_ONLY'},
      {name: 'GSI3', status: 'ACTIVE', projection: 'KEYS_ONLY'},
      {name: 'GSI4', status: 'ACTIVE', projection: 'KEYS_ONLY'},
    ],
  },
  aggregator: {
    name: 'prod-aggregator',
    state: 'Active',
    runtime: 'nodejs24.x',
    memoryMb: 1024,
    codeBytes: 210_000,
    codeSha256: 'mB4cO0Y3h1J2vQ0dGf7uQn2k1m3l5p7r9t1v3x5z7A8=',
    isOurCode: true,
    version: null,
  },
  mapping: {
    id: '592efef3-76ec-4713-9a7d-e7d9fc3652a7',
    state: 'Enabled',
    stateReason: null,
    lastResult: 'OK',
    filters: ['{"eventName":["INSERT"]}'],
    failureDestination: 'arn:aws:sqs:eu-west-1:123456789012:prod-aggregator-dlq',
  },
  traffic: {
    throttledReads: 0,
    throttledWrites: 0,
    aggregatorErrors: 0,
    uncountedRecords: 0,
    refusedRequests: 0,
    iteratorAgeMs: 1_200,
  },
  deadLetters: {queue: 'prod-aggregator-dlq', messages: 0},
  alarms: [
    {name: 'prod-aggregator-errors', state: 'OK', reason: null, notifies: true},
    {name: 'prod-aggregator-dlq', state: 'INSUFFICIENT_DATA', reason: null, notifies: true},
  ],
  versions: {
    schemaVersion: '0.9.0',
    lambdaVersion: AGGREGATOR_MARK,
    clientMinVersion: '0.0.0',
    release: '0.9.0',
    updatedBy: 'zael:0.1.0',
    isMigrationDue: false,
    problem: null,
  },
  drift: null,
} as const satisfies HealthParts

/** The health of the stack prod, with some parts replaced. */
export function healthWith(other: Partial<HealthParts> = {}, unknown: readonly UnknownPart[] = []): StackHealth {
  const parts = {...WELL, ...other}
  const findings = findingsOf('prod', parts, part => !unknown.some(each => each.part === part))
  return {stack: 'prod', region: 'eu-west-1', ...parts, unknown, findings, isHealthy: assessHealth(findings, unknown)}
}

import {describe, expect, inject, it} from 'vitest'
import {openStack} from '../../src/lib/cli/base/context.js'
import type {StackHealth} from '../../src/lib/infra/health/health.js'
import {OLD_RECORD_MS} from '../../src/lib/infra/health/parts.js'
import {healthSource, stackHealthLines} from '../../src/lib/live/health.js'
import {engineProxy} from '../e2e/engine-proxy.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

const TABLE = {
  status: 'ACTIVE',
  items: 1234,
  bytes: 5678,
  createdAt: null,
  stream: 'NEW_AND_OLD_IMAGES',
  streamArn: null,
  expiry: true,
  pointInTimeRecovery: true,
  deletionProtection: false,
  throughput: {maxReads: null, maxWrites: null, warmReads: null, warmWrites: null},
  replicas: [],
  indexes: [],
}
const NOTHING: StackHealth = {
  stack: 'prod',
  region: null,
  cloudFormation: null,
  table: TABLE,
  aggregator: null,
  mapping: null,
  traffic: null,
  deadLetters: null,
  alarms: null,
  versions: null,
  drift: null,
  unknown: [],
  findings: [],
  isHealthy: true,
}
const linesFor = (health: Partial<StackHealth>, local: Parameters<typeof stackHealthLines>[1] = null) =>
  stackHealthLines({...NOTHING, ...health}, local).map(({name, state, text}) => `${state} | ${name} | ${text}`)

describe('health in lines', () => {
  it('shows engine, lag and aggregator counts of a local stack', () => {
    const aggregator = {
      records: 1200,
      batches: 30,
      snapshots: 9,
      refused: 0,
      refills: 3,
      splits: 1,
      archived: 0,
      errors: 0,
      lastError: null,
      lagMs: 1500,
      streamLength: 7,
    }
    const local = {
      endpoint: 'http://127.0.0.1:1',
      engine: 'dynoxide 1.2.1',
      uptimeMs: 61_000,
      engineRestarts: 0,
      aggregator,
    }
    expect(linesFor({}, local)).toEqual([
      'ok | engine | dynoxide 1.2.1, up 1 min 1 s, 0 restarts',
      'ok | stream lag | 1 s',
      'ok | aggregator | records 1,200, snapshots 9, refills 3, splits 1, errors 0',
      'ok | table | active, 1,234 items, with a stream',
    ])
    const lag = (lagMs: number) => linesFor({}, {...local, aggregator: {...aggregator, lagMs}})[1]
    expect([lag(OLD_RECORD_MS), lag(OLD_RECORD_MS + 1000)]).toEqual([
      'ok | stream lag | 1 min',
      'bad | stream lag | 1 min 1 s',
    ])
    expect(linesFor({}, {...local, engineRestarts: 1, aggregator: null}).slice(0, 2)).toEqual([
      'warn | engine | dynoxide 1.2.1, up 1 min 1 s, 1 restart',
      'warn | aggregator | off: usage is not counted',
    ])
  })

  it('shows every part that exists on AWS, with the state of its findings', () => {
    const alarm = {reason: null, notifies: true}
    expect(
      linesFor({
        traffic: {
          throttledReads: 2,
          throttledWrites: 0,
          aggregatorErrors: 1,
          uncountedRecords: 0,
          refusedRequests: 0,
          iteratorAgeMs: 90_000,
        },
        deadLetters: {queue: 'dlq', messages: 4},
        alarms: [
          {...alarm, name: 'prod-lag', state: 'ALARM'},
          {...alarm, name: 'prod-errors', state: 'OK'},
        ],
        findings: [
          {severity: 'problem', part: 'traffic', message: 'The stream is late.', fix: 'zael upgrade'},
          {severity: 'note', part: 'deadLetters', message: 'Four batches failed.', fix: null},
        ],
        unknown: [{part: 'mapping', code: 'aws.denied', reason: 'not allowed', fix: null}],
      }),
    ).toEqual([
      'ok | table | active, 1,234 items, with a stream',
      'bad | metrics | stream lag 1 min 30 s, throttled 2 reads, 0 writes, 1 aggregator errors in the last hour',
      'warn | dead letters | 4 batches',
      'ok | alarms | prod-lag: alarm',
      'ok | alarms | prod-errors: ok',
      'bad | metrics | The stream is late. Try: zael upgrade',
      'warn | dead letters | Four batches failed.',
      'unknown | mapping | not allowed',
    ])
  })
})

describeOnEngine('health of a table on a local engine', () => {
  const table = useTable()

  it('cancels its requests when it is aborted', async () => {
    const requests: string[] = []
    let arrive = () => {}
    const arrived = new Promise<void>(resolve => {
      arrive = resolve
    })
    await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
      requests.push(operation)
      arrive()
      return 'unanswered'
    })
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': proxy.endpoint}
    await using stack = await openStack(flags, {})
    const leave = new AbortController()
    const health = healthSource(stack, '0.1.0')(leave.signal)
    const given = expect(health).rejects.toThrow()
    await arrived
    leave.abort()
    await given
    expect(requests).toHaveLength(1)
  })

  it('sends no request when it is aborted while loading', async () => {
    const requests: string[] = []
    await using proxy = await engineProxy(inject('engineEndpoint'), operation => {
      requests.push(operation)
      return 'unanswered'
    })
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': proxy.endpoint}
    await using stack = await openStack(flags, {})
    const leave = new AbortController()
    const health = healthSource(stack, '0.1.0')(leave.signal)
    leave.abort()
    await expect(health).rejects.toThrow()
    expect(requests).toEqual([])
  })

  it('is read from the table', async () => {
    const flags = {stack: table.name, namespace: 'default', 'endpoint-url': inject('engineEndpoint')}
    await using stack = await openStack(flags, {})
    const lines = await healthSource(stack, '0.1.0')(new AbortController().signal)
    expect(lines.find(({name}) => name === 'table')?.text).toBe('active, 0 items, no stream')
  })
})

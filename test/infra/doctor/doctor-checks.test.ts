import {describe, expect, it} from 'vitest'
import {
  clockCheck,
  credentialsCheck,
  type EndpointProbe,
  latencyCheck,
  nodeCheck,
} from '../../../src/lib/infra/doctor/machine-checks.js'
import {stackChecks, templateFilters} from '../../../src/lib/infra/doctor/stack-checks.js'
import {loadStackTemplate} from '../../../src/lib/infra/stack/artifacts.js'
import {healthWith, WELL} from '../health/sample-health.js'

const PROBE: EndpointProbe = {endpoint: 'DynamoDB', roundTripsMs: [9, 3, 400, 5, 4], skewMs: 0, problem: null}

describe('the machine', () => {
  it.each([
    ['v20.19.0', 'ok'],
    ['v20.18.9', 'fail'],
    ['v18.20.0', 'fail'],
    ['v22.1.0', 'ok'],
    ['v24.0.0', 'ok'],
  ])('with Node %s is %s', (version, state) => {
    expect(nodeCheck(version)).toMatchObject({name: 'node', state})
  })

  it.each([
    [0, 'ok', 'agrees with the server'],
    [1_500, 'ok', 'agrees with the server'],
    [2_500, 'warn', 'this machine is 2.5 s behind'],
    [-90_000, 'warn', 'this machine is 90 s ahead'],
    [-301_000, 'fail', 'AWS rejects its requests'],
    [null, 'warn', 'did not send its time'],
  ])('whose clock is off by %s ms: %s', (skewMs, state, words) => {
    expect(clockCheck({...PROBE, skewMs})).toMatchObject({state, message: expect.stringContaining(words)})
  })

  it('reports the median latency of the endpoint, despite one slow response', () => {
    expect(latencyCheck(PROBE)).toMatchObject({state: 'ok', message: 'DynamoDB responds in 5 ms (median of 5)'})
    expect(latencyCheck({...PROBE, roundTripsMs: [200, 210, 190]})).toMatchObject({state: 'warn'})
    const problem = {message: 'DynamoDB did not answer', fix: 'Check the network'}
    expect(latencyCheck({...PROBE, roundTripsMs: [], problem})).toMatchObject({state: 'fail', fix: 'Check the network'})
  })
})

describe('credentials', () => {
  const now = Date.UTC(2026, 10, 15)

  it.each([
    [undefined, 'ok'],
    [3_600_000, 'ok'],
    [600_000, 'warn'],
    [-1, 'warn'],
  ])('that expire in %s ms: %s', (leftMs, state) => {
    const end = leftMs === undefined ? undefined : new Date(now + leftMs)
    expect(credentialsCheck('arn:aws:iam::1:user/x', end, now)).toMatchObject({state})
  })
})

describe('a stack', () => {
  const filters = WELL.mapping.filters
  const states = (...args: Parameters<typeof healthWith>) =>
    Object.fromEntries(stackChecks(healthWith(...args), filters, '0.1.0').map(({name, state}) => [name, state]))

  it('is ok in every line when it is healthy', () => {
    expect(states()).toEqual({
      deployed: 'ok',
      table: 'ok',
      stream: 'ok',
      aggregator: 'ok',
      mapping: 'ok',
      filters: 'ok',
      'dead letters': 'ok',
      layout: 'ok',
    })
  })

  it.each<[string, string, Parameters<typeof healthWith>[0]]>([
    ['deployed', 'warn', {cloudFormation: {...WELL.cloudFormation, version: '0.0.9'}}],
    ['deployed', 'fail', {cloudFormation: {...WELL.cloudFormation, status: 'UPDATE_ROLLBACK_FAILED'}}],
    ['stream', 'fail', {table: {...WELL.table, stream: 'KEYS_ONLY'}}],
    ['stream', 'fail', {table: {...WELL.table, stream: null}}],
    ['deployed', 'ok', {cloudFormation: {...WELL.cloudFormation, status: 'UPDATE_ROLLBACK_COMPLETE'}}],
    ['table', 'fail', {table: {...WELL.table, expiry: false}}],
    ['replicas', 'fail', {table: {...WELL.table, replicas: ['us-east-1']}}],
    ['table', 'fail', {table: null, mapping: null}],
    ['aggregator', 'warn', {aggregator: {...WELL.aggregator, isOurCode: false}}],
    ['aggregator', 'fail', {aggregator: null, mapping: null}],
    ['mapping', 'fail', {mapping: {...WELL.mapping, state: 'Disabled'}}],
    ['mapping', 'fail', {mapping: null}],
    ['filters', 'fail', {mapping: {...WELL.mapping, filters: ['{"eventName":["MODIFY"]}']}}],
    ['filters', 'ok', {mapping: {...WELL.mapping, filters: ['{ "eventName" : ["INSERT"] }']}}],
    [
      'filters',
      'warn',
      {mapping: {...WELL.mapping, filters: []}, cloudFormation: {...WELL.cloudFormation, owner: 'zae-limiter'}},
    ],
    ['dead letters', 'fail', {deadLetters: {queue: 'q', messages: 1}}],
    ['layout', 'fail', {versions: {...WELL.versions, problem: {message: 'too old', fix: 'zael migrate'}}}],
    ['layout', 'warn', {versions: {...WELL.versions, schemaVersion: null}}],
    ['peers', 'warn', {versions: {...WELL.versions, updatedBy: 'client:0.10.3'}}],
    ['peers', 'warn', {versions: {...WELL.versions, lambdaVersion: '0.10.3'}}],
    ['peers', 'warn', {versions: {...WELL.versions, lambdaVersion: null}}],
    [
      'peers',
      'ok',
      {
        versions: {...WELL.versions, updatedBy: 'cli:0.10.3', lambdaVersion: '0.10.3'},
        aggregator: {...WELL.aggregator, isOurCode: null, version: '0.10.3'},
        table: {...WELL.table, indexes: WELL.table.indexes.map(index => ({...index, projection: 'ALL'}))},
      },
    ],
  ])('%s: %s', (name, state, other) => {
    expect(states(other)).toMatchObject({[name]: state})
  })

  it('has a warning for a part that could not be read', () => {
    const unknown = [{part: 'mapping', code: 'aws.denied', reason: 'not allowed', fix: 'ask'}] as const
    expect(states({mapping: null}, unknown)).toMatchObject({mapping: 'warn'})
  })

  it('is compared with the filters of the real template', async () => {
    const real = templateFilters(await loadStackTemplate())
    expect(real.map(each => Object.keys(JSON.parse(each)))).toEqual([
      expect.arrayContaining(['eventName']),
      expect.anything(),
    ])
  })
})

import {describe, expect, it} from 'vitest'
import type {HealthParts} from '../../../src/lib/infra/health/parts.js'
import {parameterDrift} from '../../../src/lib/infra/health/read-parts.js'
import {OTHER_PARAMETERS, parametersOf, STACK_OPTIONS} from '../../../src/lib/infra/stack/options.js'
import {healthWith, WELL} from './sample-health.js'

const findings = (other: Partial<HealthParts>) =>
  healthWith(other).findings.map(({severity, part, message}) => `${severity} ${part}: ${message}`)

const DRIFTED = {
  logicalId: 'AggregatorFunction',
  physicalId: 'prod-aggregator',
  type: 'AWS::Lambda::Function',
  change: 'deleted',
  properties: [],
} as const

describe('a stack', () => {
  it('has no findings when it is healthy', () => {
    expect(healthWith()).toMatchObject({isHealthy: true, findings: []})
  })

  it.each<[string, Partial<HealthParts>, string]>([
    ['CREATE_FAILED', {cloudFormation: {...WELL.cloudFormation, status: 'CREATE_FAILED'}}, 'problem cloudFormation'],
    ['ROLLBACK_COMPLETE', {cloudFormation: {...WELL.cloudFormation, status: 'ROLLBACK_COMPLETE'}}, 'problem'],
    ['UPDATE_ROLLBACK_FAILED', {cloudFormation: {...WELL.cloudFormation, status: 'UPDATE_ROLLBACK_FAILED'}}, 'problem'],
    ['a rolled back update', {cloudFormation: {...WELL.cloudFormation, status: 'UPDATE_ROLLBACK_COMPLETE'}}, 'note'],
    ['an update under way', {cloudFormation: {...WELL.cloudFormation, status: 'UPDATE_IN_PROGRESS'}}, 'note'],
    ['no table', {table: null}, 'problem table: The table is missing.'],
    [
      'a table of another name',
      {table: null, cloudFormation: {...WELL.cloudFormation, outputs: {TableName: 'limits'}}},
      'problem table: The table of this stack has another name: "limits".',
    ],
    ['a table that is being deleted', {table: {...WELL.table, status: 'DELETING'}}, 'problem table'],
    ['a table that is being changed', {table: {...WELL.table, status: 'UPDATING'}}, 'note table'],
    [
      'a lost index',
      {table: {...WELL.table, indexes: WELL.table.indexes.slice(1)}},
      'problem table: The table lacks GSI1',
    ],
    ['no stream', {table: {...WELL.table, stream: null}, mapping: null}, 'problem table: The table has no stream'],
    ['half a stream', {table: {...WELL.table, stream: 'NEW_IMAGE'}}, 'problem table: The stream has NEW_IMAGE'],
    [
      'replicas',
      {table: {...WELL.table, replicas: ['eu-west-1', 'us-east-1']}},
      'problem table: The table has replicas in eu-west-1, us-east-1: limits do not hold',
    ],
    [
      'a maximum that the stack does not have',
      {table: {...WELL.table, throughput: {...WELL.table.throughput, maxWrites: 500}}},
      'note table: The table has a maximum of 500 write units a second; the stack has none.',
    ],
    ['no expiry', {table: {...WELL.table, expiry: false}}, 'problem table: Expiry is off'],
    ['no recovery', {table: {...WELL.table, pointInTimeRecovery: false}}, 'note table'],
    ['a placeholder', {aggregator: {...WELL.aggregator, isOurCode: false, codeBytes: 900}}, 'problem aggregator'],
    ['other code', {aggregator: {...WELL.aggregator, isOurCode: false}}, 'note aggregator'],
    ['no function', {aggregator: null, mapping: null}, 'problem aggregator: The function does not exist'],
    ['a deleted alarm', {alarms: [WELL.alarms[1]]}, 'note alarms: Alarm prod-aggregator-errors is missing'],
    ['a failed function', {aggregator: {...WELL.aggregator, state: 'Failed'}}, 'problem aggregator'],
    ['C-15 a disabled mapping', {mapping: {...WELL.mapping, state: 'Disabled'}}, 'problem mapping'],
    [
      'C-15 a mapping that cannot read',
      {mapping: {...WELL.mapping, lastResult: 'PROBLEM: Function call failed'}},
      'problem',
    ],
    ['C-15 no mapping', {mapping: null}, 'problem mapping: No event source mapping from the stream'],
    ['a mapping on its way', {mapping: {...WELL.mapping, state: 'Creating'}}, 'note mapping'],
    ['lag', {traffic: {...WELL.traffic, iteratorAgeMs: 91_000}}, 'problem traffic: The function is 91 s behind'],
    [
      'throttles',
      {traffic: {...WELL.traffic, throttledWrites: 7}},
      'note traffic: DynamoDB throttled 0 reads and 7 writes',
    ],
    ['errors', {traffic: {...WELL.traffic, aggregatorErrors: 3}}, 'note traffic: The function failed 3 times'],
    [
      'uncounted usage',
      {traffic: {...WELL.traffic, uncountedRecords: 2}},
      'note traffic: 2 records could not be counted',
    ],
    ['dead letters', {deadLetters: {queue: 'q', messages: 2}}, 'problem deadLetters: 2 batches of the stream failed'],
    [
      'an alarm',
      {alarms: [{...WELL.alarms[0], state: 'ALARM', reason: 'too many'}]},
      'problem alarms: Alarm prod-aggr',
    ],
    ['no version record', {versions: {...WELL.versions, schemaVersion: null}}, 'note versions'],
    [
      'a changed resource',
      {drift: [{...DRIFTED, change: 'modified', properties: [{path: '/MemorySize', expected: '512', actual: '1024'}]}]},
      'problem drift: AggregatorFunction (AWS::Lambda::Function) differs from the template: /MemorySize.',
    ],
    ['a lost resource', {drift: [DRIFTED]}, 'problem drift: AggregatorFunction (AWS::Lambda::Function) was deleted.'],
  ])('with %s has one finding', (_, other, beginning) => {
    expect(findings(other)).toEqual([expect.stringContaining(beginning)])
    expect(healthWith(other).isHealthy).toBe(beginning.startsWith('note'))
  })

  it('has fixes that work: resources deleted outside of CloudFormation need more than a deployment', () => {
    const fixOf = (other: Partial<HealthParts>) => healthWith(other).findings[0]?.fix
    for (const gone of [{mapping: null}, {mapping: null, aggregator: null}, {alarms: []}, {drift: [DRIFTED]}]) {
      expect(fixOf(gone)).toBe('zael deploy --stack prod --repair')
    }
    // An empty table would not be a repair.
    const table = {...DRIFTED, logicalId: 'Table', type: 'AWS::DynamoDB::Table'}
    expect(fixOf({drift: [table]})).toContain('docs/operations.md#restoring-a-lost-table')
    expect(fixOf({table: null, mapping: null})).toContain('docs/operations.md#restoring-a-lost-table')
    expect(fixOf({table: {...WELL.table, expiry: false}})).toBe('zael migrate plan --stack prod')
    expect(fixOf({table: {...WELL.table, indexes: []}})).toBe('zael migrate plan --stack prod')
    expect(fixOf({table: {...WELL.table, stream: 'NEW_IMAGE'}})).toContain(
      'StreamEnabled=false, then zael migrate plan',
    )
    expect(fixOf({table: {...WELL.table, pointInTimeRecovery: false}})).toContain('update-continuous-backups')
  })

  it('does not propose to remove manual protection of the table', () => {
    const properties = [{path: '/DeletionProtectionEnabled', expected: 'false', actual: 'true'}]
    const table = {...DRIFTED, type: 'AWS::DynamoDB::Table', change: 'modified' as const, properties}
    const fixes = healthWith({drift: [DRIFTED, table]}).findings.map(({fix}) => fix)
    expect(new Set(fixes)).toEqual(new Set(['zael deploy --stack prod --repair --deletion-protection']))
  })

  it('is degraded when it must be migrated, with the command', () => {
    const problem = {message: "The table's layout (0.8.0) is too old.", fix: 'zael migrate'}
    const {findings} = healthWith({versions: {...WELL.versions, isMigrationDue: true, problem}})
    expect(findings).toEqual([{severity: 'problem', part: 'versions', ...problem}])
  })

  it('has problems before notes', () => {
    const severities = findings({
      cloudFormation: {...WELL.cloudFormation, status: 'UPDATE_IN_PROGRESS'},
      deadLetters: {queue: 'q', messages: 1},
    }).map(line => line.split(' ')[0])
    expect(severities).toEqual(['problem', 'note'])
  })

  it.each([
    ['5', 65_000, 0],
    ['5', 65_001, 1],
    ['30', 90_000, 0],
    ['30', 90_001, 1],
    ['120', 180_000, 0],
    ['120', 180_001, 1],
  ])('waits %s s for a full batch and so may be %i ms behind: %i problems', (value, iteratorAgeMs, problems) => {
    const chosen = value === '30' ? [] : [{name: 'StreamBatchWindow', value, default: '30'}]
    const cloudFormation = {...WELL.cloudFormation, parameters: {...WELL.cloudFormation.parameters, chosen}}
    const {findings} = healthWith({cloudFormation, traffic: {...WELL.traffic, iteratorAgeMs}})
    expect(findings).toHaveLength(problems)
  })

  it('has no findings for parts that could not be read', () => {
    const unknown = [{part: 'mapping', code: 'aws.denied', reason: 'no', fix: null}] as const
    expect(healthWith({mapping: null}, unknown)).toMatchObject({isHealthy: null, findings: []})
    const noFunction = [{part: 'aggregator', code: 'aws.denied', reason: 'no', fix: null}] as const
    expect(healthWith({aggregator: null}, noFunction).findings).toEqual([])
    const noTable = [{part: 'table', code: 'dynamo.denied', reason: 'no', fix: null}] as const
    expect(healthWith({table: null, mapping: null}, noTable).findings).toEqual([])
  })

  it('needs no stream without AWS services', () => {
    const services = {
      cloudFormation: null,
      aggregator: null,
      mapping: null,
      traffic: null,
      deadLetters: null,
      alarms: null,
    }
    expect(findings({...services, table: {...WELL.table, stream: null}})).toEqual([
      expect.stringContaining('note table'),
    ])
  })

  it('is not deployed by zael when the Python tool made it', () => {
    const cloudFormation = {...WELL.cloudFormation, owner: 'zae-limiter' as const}
    const {findings} = healthWith({cloudFormation, mapping: null})
    expect(findings[0]?.fix).toContain('docs/operations.md')
  })
})

describe('parameters', () => {
  const defaults: Record<string, string> = {
    ...parametersOf(Object.fromEntries(STACK_OPTIONS.map(option => [option.name, option.default]))),
    ...Object.fromEntries(OTHER_PARAMETERS.map(parameter => [parameter, ''])),
  }

  it('at their defaults do not differ', () => {
    expect(parameterDrift(defaults)).toEqual({chosen: [], missing: [], unknown: []})
  })

  it('are listed when they are changed, missing or unknown', () => {
    const {LambdaTimeout: _, ...others} = defaults
    expect(
      parameterDrift({
        ...others,
        LambdaMemorySize: '1024',
        PITRRecoveryPeriodDays: '7',
        CodeBucket: 'code',
        Strange: 'x',
      }),
    ).toEqual({
      chosen: [
        {name: 'PITRRecoveryPeriodDays', value: '7', default: null},
        {name: 'LambdaMemorySize', value: '1024', default: '512'},
        {name: 'CodeBucket', value: 'code', default: null},
      ],
      missing: ['LambdaTimeout'],
      unknown: ['Strange'],
    })
  })
})

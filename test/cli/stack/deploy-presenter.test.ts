import {describe, expect, it} from 'vitest'
import {
  deployJson,
  deployPlanLines,
  eventLines,
  finishedLines,
  unfinishedLines,
} from '../../../src/lib/cli/stack/deploy-presenter.js'
import type {DeployPlan} from '../../../src/lib/infra/deploy/plan.js'
import type {ChangeAction, PlannedResource} from '../../../src/lib/infra/deploy/planned-change.js'
import type {StackEvent} from '../../../src/lib/infra/stack/events.js'
import {schemaProblems} from '../../e2e/schemas.js'

// Lines have no columns to fit into a width: they are the same at 80 and at 120.
const PLAN: DeployPlan = {
  stack: 'prod',
  region: 'eu-west-1',
  action: 'update',
  parameters: [],
  cloudFormationRole: null,
  terminationProtection: null,
  changeSet: {id: 'cs', name: 'zael-1', stackId: 'st', hasOwnStack: false, changes: []},
  code: 'current',
  stackId: 'st',
  hasEmptyTable: false,
  adopts: null,
  repairs: false,
  runningCode: null,
}

function change(action: ChangeAction, logicalId: string, more: Partial<PlannedResource> = {}): PlannedResource {
  return {action, logicalId, physicalId: null, type: 'AWS::Lambda::Function', properties: [], ...more}
}

function withChanges(...changes: PlannedResource[]): DeployPlan {
  return {...PLAN, changeSet: {id: 'cs', name: 'zael-1', stackId: 'st', hasOwnStack: false, changes}}
}

describe('the plan of a deployment', () => {
  it('lists additions first and replacements last, with the properties that change', () => {
    const plan = withChanges(
      change('replace', 'AggregatorDLQ', {
        physicalId: 'https://sqs.eu-west-1.amazonaws.com/123456789012/prod-aggregator-dlq',
        type: 'AWS::SQS::Queue',
        properties: [{name: 'QueueName', before: 'old', after: 'new'}],
      }),
      change('remove', 'ReadOnlyPolicy', {
        physicalId: 'arn:aws:iam::1:policy/prod-read',
        type: 'AWS::IAM::ManagedPolicy',
      }),
      change('keep', 'AuditArchiveBucket', {physicalId: 'prod-archive', type: 'AWS::S3::Bucket'}),
      change('change', 'AggregatorFunction', {
        physicalId: 'prod-aggregator',
        properties: [
          {name: 'MemorySize', before: '512', after: '1024'},
          {name: 'Description', before: null, after: 'x'.repeat(60)},
          {name: 'Tags', before: null, after: null},
        ],
      }),
      change('maybe-replace', 'Table', {physicalId: 'prod', type: 'AWS::DynamoDB::Table'}),
      change('add', 'Dashboard', {
        type: 'AWS::CloudWatch::Dashboard',
        properties: [{name: 'X', before: null, after: '1'}],
      }),
    )
    const parameters = [
      {option: 'lambdaMemory', before: '512', after: '1024'},
      {option: 'alarmTopic', before: '', after: 'arn:aws:sns:eu-west-1:123456789012:ops'},
    ]
    expect(deployPlanLines({...plan, parameters, code: 'new'}).join('\n')).toMatchInlineSnapshot(`
      "Stack "prod" in eu-west-1: will be changed
        lambdaMemory: 512 -> 1024
        alarmTopic: not set -> arn:aws:sns:eu-west-1:123456789012:ops
        + Dashboard (CloudWatch Dashboard)
        ~ AggregatorFunction prod-aggregator (Lambda Function)
            MemorySize: 512 -> 1024
            Description: not set -> xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
            Tags
        - AuditArchiveBucket prod-archive (S3 Bucket): leaves the stack and stays on AWS
        - ReadOnlyPolicy prod-read (IAM ManagedPolicy): is deleted
        ! Table prod (DynamoDB Table): CloudFormation may replace it
        ! AggregatorDLQ prod-aggregator-dlq (SQS Queue): is REPLACED by a new one, then deleted
            QueueName: old -> new
        ~ aggregator code: will be uploaded

      1 to add, 2 to change, 1 to replace, 2 to remove"
    `)
  })

  it('says when there are no changes, or only new code', () => {
    const none = {...PLAN, action: 'none', changeSet: undefined} as const
    expect(deployPlanLines(none)).toEqual(['Stack "prod" in eu-west-1: no changes'])
    expect(deployPlanLines({...none, code: 'new'})).toEqual([
      'Stack "prod" in eu-west-1: no changes',
      '  ~ aggregator code: will be uploaded',
    ])
  })

  it('escapes control characters of names on AWS', () => {
    const [, line] = deployPlanLines(withChanges(change('change', 'Queue', {physicalId: 'evil\u001b[2J'})))
    expect(line).not.toContain('\u001b[2J')
  })
})

describe('the plan of a deployment that adopts or repairs', () => {
  const table = change('import', 'Table', {physicalId: 'prod', type: 'AWS::DynamoDB::Table'})
  const adopts = {table: 'prod', items: 1234, formerArchive: null}

  it('names the adopted table, and says that its items stay', () => {
    const plan: DeployPlan = {...withChanges(change('add', 'AppRole'), table), action: 'create', adopts}
    expect(deployPlanLines(plan)).toEqual([
      'Stack "prod" in eu-west-1: will be created',
      '  adopts table prod and keeps about 1,234 items',
      '  = Table prod (DynamoDB Table): exists; the stack adopts it',
      '  + AppRole (Lambda Function)',
      '',
      '1 to import, 1 to add, 0 to change, 0 to replace, 0 to remove',
    ])
    const counted = (items: number) => deployPlanLines({...plan, adopts: {...adopts, items}})[1]
    expect([counted(1), counted(0)]).toEqual([
      '  adopts table prod and keeps about 1 item',
      '  adopts table prod and keeps its items',
    ])
    const archived = deployPlanLines({...plan, adopts: {...adopts, formerArchive: 'prod-archive-1'}})
    expect(archived[2]).toBe('  keeps audit archive prod-archive-1, but archives new events in a new one')
    expect(schemaProblems('deploy', deployJson(plan, {dryRun: true, finished: undefined}))).toEqual([])
  })

  it('names deleted parts and reset values', () => {
    const memory = {properties: [{name: 'MemorySize', before: '1024', after: '512'}]}
    const plan = {
      ...withChanges(change('change', 'AggregatorFunction', memory), change('restore', 'AppRole')),
      repairs: true,
    }
    expect(deployPlanLines(plan)).toEqual([
      'Stack "prod" in eu-west-1: will be changed',
      '  repairs: resources that differ from the template are reverted',
      '  + AppRole (Lambda Function): was deleted and is recreated',
      '  ~ AggregatorFunction (Lambda Function)',
      '      MemorySize: 1024 -> 512',
      '',
      '0 to add, 1 to recreate, 1 to change, 0 to replace, 0 to remove',
    ])
  })
})

describe('an event', () => {
  const event: StackEvent = {
    id: '1',
    at: new Date('2026-11-15T09:08:07Z'),
    logicalId: 'AggregatorFunction',
    physicalId: null,
    type: 'AWS::Lambda::Function',
    status: 'CREATE_COMPLETE',
    reason: 'Resource creation Initiated',
    isOfStack: false,
  }

  it('prints one line, and a second one for the reason of a failure', () => {
    expect(eventLines(event)).toEqual(['  09:08:07  CREATE_COMPLETE     AggregatorFunction'])
    expect(eventLines({...event, status: 'CREATE_FAILED', reason: 'No room'})).toEqual([
      '  09:08:07  CREATE_FAILED       AggregatorFunction',
      '            No room',
    ])
  })
})

describe('the result of a deployment', () => {
  const finished = {
    functionName: 'prod-aggregator',
    codeSha256: 'f5TdLX0ZZZdGTIx8vSAtmvl2lCOrJpAOboKJ4EE+/fo=',
    codeUpdated: false,
    eventSource: 'Enabled',
    schemaVersion: '0.9.0',
    defaultNamespaceCreated: false,
    warnings: [],
  }

  it('shows the deployed parts', () => {
    expect(finishedLines(PLAN, finished).join('\n')).toMatchInlineSnapshot(`
      "Stack "prod" is changed
        table       prod, layout 0.9.0
        aggregator  prod-aggregator
        code        f5TdLX0ZZZdG, unchanged
        stream      event source enabled"
    `)
    const unfed = finishedLines(PLAN, {...finished, eventSource: null})
    expect(unfed.at(-1)).toBe('  stream      event source missing')
    const bare = {...finished, functionName: null, codeSha256: null, eventSource: null}
    expect(finishedLines({...PLAN, action: 'none'}, bare).join('\n')).toMatchInlineSnapshot(`
      "Stack "prod" is up to date
        table       prod, layout 0.9.0
        aggregator  off"
    `)
  })

  it.each([
    [null, 'zael deploy --stack prod'],
    [true, 'zael deploy --stack prod --termination-protection'],
    [false, 'zael deploy --stack prod --no-termination-protection'],
  ])(
    'suggests the command that finishes an unfinished one, with termination protection %s',
    (terminationProtection, command) => {
      const lines = unfinishedLines({...PLAN, terminationProtection}, ' --stack prod').join('\n')
      expect(lines).toMatch(new RegExp(`${command} +finish after CloudFormation is done`))
    },
  )

  it('has the same JSON keys for every outcome', () => {
    const done = deployJson(PLAN, {dryRun: false, finished})
    const dry = deployJson({...PLAN, action: 'recreate', changeSet: undefined}, {dryRun: true, finished: undefined})
    expect(Object.keys(dry)).toEqual(Object.keys(done))
    expect([...schemaProblems('deploy', done), ...schemaProblems('deploy', dry)]).toEqual([])
    expect(dry).toMatchObject({complete: false, aggregator: null, schemaVersion: null})
  })
})

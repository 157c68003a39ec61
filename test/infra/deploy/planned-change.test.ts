import {describe, expect, it} from 'vitest'
import {
  destroysTable,
  type PlannedResource,
  requestParameters,
  toPlannedChange,
} from '../../../src/lib/infra/deploy/planned-change.js'

describe('a change of a change set', () => {
  it.each([
    [{Action: 'Add'}, 'add'],
    [{Action: 'Modify', Replacement: 'False'}, 'change'],
    [{Action: 'Modify', Replacement: 'Conditional'}, 'maybe-replace'],
    [{Action: 'Modify', Replacement: 'True'}, 'replace'],
    [{Action: 'Remove', PolicyAction: 'Delete'}, 'remove'],
    [{Action: 'Remove', PolicyAction: 'Retain'}, 'keep'],
    [{Action: 'Dynamic'}, 'maybe-replace'],
    [{Action: 'Import'}, 'import'],
    [{Action: 'SyncWithActual'}, 'sync'],
    // Drift-aware change sets list it in either way.
    [{Action: 'Add', ResourceDriftStatus: 'DELETED'}, 'restore'],
    [{Action: 'Modify', Replacement: 'True', ResourceDriftStatus: 'DELETED'}, 'restore'],
    [{Action: 'Modify', Replacement: 'False', ResourceDriftStatus: 'MODIFIED'}, 'change'],
    [{Action: 'Remove', PolicyAction: 'Delete', ResourceDriftStatus: 'DELETED'}, 'remove'],
  ] as const)('%o is %s', (change, action) => {
    expect(toPlannedChange({ResourceChange: change}).action).toBe(action)
  })

  it('has each property once, with its values if there are any', () => {
    const change = toPlannedChange({
      ResourceChange: {
        Action: 'Modify',
        LogicalResourceId: 'AggregatorFunction',
        PhysicalResourceId: 'prod-aggregator',
        ResourceType: 'AWS::Lambda::Function',
        Details: [
          {Target: {Attribute: 'Properties', Name: 'MemorySize', BeforeValue: '512', AfterValue: '1024'}},
          {Target: {Attribute: 'Properties', Name: 'MemorySize'}},
          {Target: {Attribute: 'Tags'}},
        ],
      },
    })
    expect(change.properties).toEqual([
      {name: 'MemorySize', before: '512', after: '1024'},
      {name: 'Tags', before: null, after: null},
    ])
  })

  it.each([
    ['replace', true],
    ['remove', true],
    ['keep', true],
    ['change', false],
    ['maybe-replace', true],
    ['add', false],
    ['import', false],
    // It would be created without its items.
    ['restore', true],
    ['sync', false],
  ] as const)('to %s the table loses its data: %s', (action, isLost) => {
    const change = {action, logicalId: 'Table', physicalId: 'prod', properties: []}
    expect(destroysTable({...change, type: 'AWS::DynamoDB::Table'} satisfies PlannedResource, false)).toBe(isLost)
    expect(destroysTable({...change, type: 'AWS::SQS::Queue'} satisfies PlannedResource, false)).toBe(false)
  })

  it.each([
    ['maybe-replace', ['AttributeDefinitions', 'GlobalSecondaryIndexes'], false],
    ['maybe-replace', ['AttributeDefinitions', 'KeySchema'], true],
    ['maybe-replace', ['TableName'], true],
    ['replace', ['AttributeDefinitions'], true],
  ] as const)('to %s the table because of %o while its index is added loses its data: %s', (action, names, isLost) => {
    const properties = names.map(name => ({name, before: null, after: null}))
    const change = {action, logicalId: 'Table', physicalId: 'prod', type: 'AWS::DynamoDB::Table', properties}
    expect(destroysTable(change, true)).toBe(isLost)
  })
})

it('keeps parameters that another tool has set, such as the name of the table', () => {
  const deployed = {LambdaTimeout: '60', TableName: 'limits', CodeBucket: 'code', CodeKey: 'a.zip', Former: 'x'}
  expect(requestParameters({LambdaTimeout: '90'}, deployed)).toEqual([
    {ParameterKey: 'LambdaTimeout', ParameterValue: '90'},
    {ParameterKey: 'TableName', UsePreviousValue: true},
    {ParameterKey: 'CodeBucket', UsePreviousValue: true},
    {ParameterKey: 'CodeKey', UsePreviousValue: true},
  ])
  expect(requestParameters({}, {})).toEqual([])
})

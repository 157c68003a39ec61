import {describe, expect, it} from 'vitest'
import {createChangeSet, discardChangeSet, executeChangeSet} from '../../../src/lib/infra/deploy/change-set.js'
import {fakeAws, inTurn, noWaiting} from '../fake-aws.js'

const REQUEST = {
  stack: 'prod',
  type: 'UPDATE',
  template: 'Resources: {}',
  parameters: [{ParameterKey: 'LambdaMemorySize', UsePreviousValue: true}],
  tags: {team: 'platform'},
  changeSetName: 'zael-1',
  isNewName: false,
} as const

const MADE = {createChangeSet: () => ({Id: 'cs', StackId: 'st'}), deleteChangeSet: () => ({}), deleteStack: () => ({})}
const change = (LogicalResourceId: string) => ({ResourceChange: {Action: 'Add', LogicalResourceId}})
const namesOf = (calls: readonly {name: string}[]) => calls.map(({name}) => name)

describe('createChangeSet', () => {
  it('waits until it is worked out, and reads all pages of it', async () => {
    const {aws, calls} = fakeAws({
      ...MADE,
      describeChangeSet: inTurn<object>(
        {Status: 'CREATE_PENDING'},
        {Status: 'CREATE_IN_PROGRESS'},
        {Status: 'CREATE_COMPLETE', Changes: [change('A')], NextToken: 'more'},
        {Changes: [change('B')]},
      ),
    })
    const waiting = noWaiting()
    const made = await createChangeSet(aws, REQUEST, waiting)
    expect(made?.changes.map(({logicalId}) => logicalId)).toEqual(['A', 'B'])
    expect(waiting.pauses).toEqual([250, 375])
    expect(calls[0]?.input).toMatchObject({
      ChangeSetType: 'UPDATE',
      ClientToken: 'zael-1',
      Parameters: [{ParameterKey: 'LambdaMemorySize', UsePreviousValue: true}],
      Tags: [{Key: 'team', Value: 'platform'}],
      Capabilities: ['CAPABILITY_NAMED_IAM'],
    })
  })

  it.each(["The submitted information didn't contain changes.", 'No updates are to be performed.'])(
    'is nothing, and leaves nothing, when AWS says: %s',
    async StatusReason => {
      const {aws, calls} = fakeAws({...MADE, describeChangeSet: () => ({Status: 'FAILED', StatusReason})})
      expect(await createChangeSet(aws, REQUEST, noWaiting())).toBeUndefined()
      expect(namesOf(calls)).toEqual(['createChangeSet', 'describeChangeSet', 'deleteChangeSet'])
    },
  )

  it('is thrown away when waiting for it is interrupted', async () => {
    const stop = new AbortController()
    const {aws, calls} = fakeAws({...MADE, describeChangeSet: () => ({Status: 'CREATE_IN_PROGRESS'})})
    const waiting = {sleep: async () => stop.abort(), signal: stop.signal}
    await expect(createChangeSet(aws, REQUEST, waiting)).rejects.toMatchObject({code: 'dynamo.aborted'})
    expect(namesOf(calls)).toContain('deleteChangeSet')
  })
})

const CHANGE_SET = {id: 'cs', name: 'zael-1', stackId: 'st', hasOwnStack: false, changes: []}

describe('executeChangeSet', () => {
  it('counts once, and has what is made now and fails taken away again, the empty table too', async () => {
    const {aws, calls} = fakeAws({executeChangeSet: () => ({})})
    await executeChangeSet(aws, 'prod', CHANGE_SET)
    expect(calls).toEqual([
      {
        name: 'executeChangeSet',
        input: {ChangeSetName: 'cs', ClientRequestToken: 'zael-1', RetainExceptOnCreate: true},
      },
    ])
  })
})

describe('discardChangeSet', () => {
  const stackIs = (StackStatus: string) => ({...MADE, describeStacks: () => ({Stacks: [{StackStatus}]})})

  it.each([
    ['REVIEW_IN_PROGRESS', true, true],
    // Somebody has carried out another change set of it.
    ['CREATE_IN_PROGRESS', true, false],
    ['REVIEW_IN_PROGRESS', false, false],
  ])('of a stack that is %s and made for it: %s, deletes the stack: %s', async (status, hasOwnStack, isDeleted) => {
    const {aws, calls} = fakeAws(stackIs(status))
    await discardChangeSet(aws, {...CHANGE_SET, hasOwnStack})
    expect(namesOf(calls).includes('deleteStack')).toBe(isDeleted)
  })
})

import {describe, expect, it} from 'vitest'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {Aborted} from '../../../src/lib/dynamo/errors.js'
import {
  createChangeSet,
  discardAfter,
  discardChangeSet,
  executeChangeSet,
} from '../../../src/lib/infra/deploy/change-set.js'
import {fakeAws, instantWait, inTurn} from '../fake-aws.js'

const REQUEST = {
  stack: 'prod',
  type: 'UPDATE',
  template: {TemplateBody: 'Resources: {}'},
  parameters: [{ParameterKey: 'LambdaMemorySize', UsePreviousValue: true}],
  tags: {team: 'platform'},
  changeSetName: 'zael-1',
  isNewName: false,
} as const

const MADE = {createChangeSet: () => ({Id: 'cs', StackId: 'st'}), deleteChangeSet: () => ({}), deleteStack: () => ({})}
const change = (LogicalResourceId: string) => ({ResourceChange: {Action: 'Add', LogicalResourceId}})
const namesOf = (calls: readonly {name: string}[]) => calls.map(({name}) => name)

describe('createChangeSet', () => {
  it('waits until the change set is planned, and reads all its pages', async () => {
    const {aws, calls} = fakeAws({
      ...MADE,
      describeChangeSet: inTurn<object>(
        {Status: 'CREATE_PENDING'},
        {Status: 'CREATE_IN_PROGRESS'},
        {Status: 'CREATE_COMPLETE', Changes: [change('A')], NextToken: 'more'},
        {Changes: [change('B')]},
      ),
    })
    const wait = instantWait()
    const made = await createChangeSet(aws, REQUEST, wait)
    expect(made?.changes.map(({logicalId}) => logicalId)).toEqual(['A', 'B'])
    expect(wait.pauses).toEqual([250, 375])
    expect(calls[0]?.input).toMatchObject({
      ChangeSetType: 'UPDATE',
      ClientToken: 'zael-1',
      Parameters: [{ParameterKey: 'LambdaMemorySize', UsePreviousValue: true}],
      Tags: [{Key: 'team', Value: 'platform'}],
      Capabilities: ['CAPABILITY_NAMED_IAM'],
    })
  })

  it.each(["The submitted information didn't contain changes.", 'No updates are to be performed.'])(
    'returns nothing and leaves no change set when the reason is: %s',
    async StatusReason => {
      const {aws, calls} = fakeAws({...MADE, describeChangeSet: () => ({Status: 'FAILED', StatusReason})})
      expect(await createChangeSet(aws, REQUEST, instantWait())).toBeUndefined()
      expect(namesOf(calls)).toEqual(['createChangeSet', 'describeChangeSet', 'deleteChangeSet'])
    },
  )

  it('deletes the change set when it is interrupted', async () => {
    const stop = new AbortController()
    const {aws, calls} = fakeAws({...MADE, describeChangeSet: () => ({Status: 'CREATE_IN_PROGRESS'})})
    const wait = {sleep: async () => stop.abort(), signal: stop.signal}
    await expect(createChangeSet(aws, REQUEST, wait)).rejects.toMatchObject({code: 'dynamo.aborted'})
    expect(namesOf(calls)).toContain('deleteChangeSet')
  })

  it('sends nothing when it is interrupted before', async () => {
    const {aws, calls} = fakeAws(MADE)
    const wait = {...instantWait(), signal: AbortSignal.abort()}
    await expect(createChangeSet(aws, REQUEST, wait)).rejects.toMatchObject({code: 'dynamo.aborted'})
    expect(calls).toEqual([])
  })

  it('deletes a change set, and its empty stack, when the response to the creation was lost', async () => {
    const lost = Object.assign(new Error('no answer'), {name: 'TimeoutError'})
    const {aws, calls} = fakeAws({
      ...MADE,
      createChangeSet: () => Promise.reject(lost),
      describeChangeSet: () => ({ChangeSetId: 'cs', StackId: 'st', Status: 'CREATE_COMPLETE'}),
      describeStacks: () => ({Stacks: [{StackStatus: 'REVIEW_IN_PROGRESS'}]}),
      listChangeSets: () => ({Summaries: []}),
    })
    const request = {...REQUEST, isNewName: true}
    await expect(createChangeSet(aws, request, instantWait())).rejects.toMatchObject({code: 'aws.unavailable'})
    expect(calls.slice(1)).toMatchObject([
      {name: 'describeChangeSet', input: {StackName: 'prod', ChangeSetName: 'zael-1'}},
      {name: 'deleteChangeSet', input: {ChangeSetName: 'cs'}},
      {name: 'describeStacks'},
      {name: 'listChangeSets'},
      {name: 'deleteStack', input: {StackName: 'st'}},
    ])
  })
})

const CHANGE_SET = {id: 'cs', name: 'zael-1', stackId: 'st', hasOwnStack: false, changes: []}

describe('executeChangeSet', () => {
  it('is idempotent, and lets a failed creation remove also the empty table', async () => {
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
  it('waits for a change set that is still being planned', async () => {
    const busy = Object.assign(new Error('Cannot delete ChangeSet in status CREATE_IN_PROGRESS'), {
      name: 'InvalidChangeSetStatus',
    })
    const {aws, calls} = fakeAws({...MADE, deleteChangeSet: inTurn<unknown>(Promise.reject(busy), {})})
    await discardChangeSet(aws, CHANGE_SET)
    expect(namesOf(calls)).toEqual(['deleteChangeSet', 'deleteChangeSet'])
  })

  it('reports its own failure beside the earlier one, with the commands to run by hand', async () => {
    const {aws} = fakeAws({deleteChangeSet: () => Promise.reject(new Error('not now'))})
    const remove = 'aws cloudformation delete-change-set --change-set-name cs'
    const failure = new ZaelError('access', 'aws.denied', 'Not allowed', {hint: 'Ask.'})
    expect(await discardAfter(failure, aws, CHANGE_SET)).toMatchObject({
      code: 'aws.denied',
      hint: `Ask.\nzael could not discard the planned changes: Cannot discard the planned changes: not now To discard them: ${remove}`,
    })
    expect(await discardAfter(new Aborted('Waiting', false), aws, CHANGE_SET)).toMatchObject({
      kind: 'interrupted',
      message:
        'Interrupted: nothing was changed. zael could not discard the planned changes: Cannot discard the planned changes: not now',
      hint: `To discard them: ${remove}`,
    })
  })

  const stackIs = (StackStatus: string) => ({
    ...MADE,
    describeStacks: () => ({Stacks: [{StackStatus}]}),
    listChangeSets: () => ({Summaries: []}),
  })

  it.each([
    ['REVIEW_IN_PROGRESS', true, true],
    // Another deployment has executed a change set of it.
    ['CREATE_IN_PROGRESS', true, false],
    ['REVIEW_IN_PROGRESS', false, false],
  ])(
    'with a stack in %s that was created for it: %s, deletes the stack: %s',
    async (status, hasOwnStack, isDeleted) => {
      const {aws, calls} = fakeAws(stackIs(status))
      await discardChangeSet(aws, {...CHANGE_SET, hasOwnStack})
      expect(namesOf(calls).includes('deleteStack')).toBe(isDeleted)
    },
  )

  it.each([
    ['has a plan for the stack', () => ({Summaries: [{ChangeSetName: 'zael-2', StackId: 'st'}]})],
    ['may have one, which cannot be read', () => Promise.reject(new Error('denied'))],
  ])('keeps the empty stack when another client %s', async (_, listChangeSets) => {
    const {aws, calls} = fakeAws({...stackIs('REVIEW_IN_PROGRESS'), listChangeSets})
    await discardChangeSet(aws, {...CHANGE_SET, hasOwnStack: true})
    expect(namesOf(calls)).not.toContain('deleteStack')
  })
})

import {describe, expect, it} from 'vitest'
import {createChangeSet, executeChangeSet} from '../../../src/lib/infra/deploy/change-set.js'
import {deployFailed, needsIndexRebuild} from '../../../src/lib/infra/deploy/errors.js'
import type {StackEvent} from '../../../src/lib/infra/stack/events.js'
import {ownerOf} from '../../../src/lib/infra/stack/reader.js'
import {fakeAws, instantWait} from '../fake-aws.js'

const STACK_ID = 'arn:aws:cloudformation:us-east-2:123456789012:stack/two/0a1b'
const OTHER_NAMES = '--role-name-format "{}-us-east-2" --policy-name-format "{}-us-east-2"'
const CHANGE_SET = {id: 'cs', name: 'zael-1', stackId: STACK_ID, hasOwnStack: false, changes: []}
const REQUEST = {
  stack: 'two',
  type: 'UPDATE',
  template: {TemplateBody: 'Resources: {}'},
  parameters: [],
  tags: {},
  changeSetName: 'zael-1',
  isNewName: false,
} as const

function answerOf(name: string, message: string): never {
  throw Object.assign(new Error(message), {name})
}

describe('a name that another region has taken', () => {
  const event = (logicalId: string, type: string, status: string, reason: string | null): StackEvent => {
    const isOfStack = logicalId === 'two'
    const physicalId = isOfStack ? STACK_ID : null
    return {id: status, at: new Date(0), logicalId, physicalId, type, status, reason, isOfStack}
  }
  const end = event('two', 'AWS::CloudFormation::Stack', 'ROLLBACK_COMPLETE', null)
  const hintFor = (type: string, reason: string) =>
    deployFailed('two', [event('Some', type, 'CREATE_FAILED', reason), end], end).hint

  it.each([
    ['AWS::IAM::Role', 'Role with name two-aggr already exists. (Service: Iam, Status Code: 409)'],
    ['AWS::IAM::ManagedPolicy', 'A policy called two-acq already exists. Duplicate names are not allowed.'],
    ['AWS::IAM::Role', 'Resource handler returned message: "x" (HandlerErrorCode: AlreadyExists)'],
  ])('%s: %s', (type, reason) => {
    expect(hintFor(type, reason)).toContain(OTHER_NAMES)
    expect(hintFor(type, reason)).toContain('docs/deploying.md#one-name-in-several-regions')
  })

  it('suggests other role names only when the name of a role or policy is taken', () => {
    expect(hintFor('AWS::SQS::Queue', 'two-aggregator-dlq already exists')).not.toContain('--role-name-format')
    expect(hintFor('AWS::IAM::Role', 'Not authorized to create a role')).not.toContain('--role-name-format')
  })

  it('is reported before anything is created when CloudFormation checks names first', async () => {
    const StatusReason = 'The following hook(s)/validation failed: [AWS::EarlyValidation::ResourceExistenceCheck].'
    const {aws} = fakeAws({
      createChangeSet: () => ({Id: 'cs', StackId: STACK_ID}),
      describeChangeSet: () => ({Status: 'FAILED', StatusReason}),
      deleteChangeSet: () => ({}),
    })
    await expect(createChangeSet(aws, REQUEST, instantWait())).rejects.toMatchObject({
      code: 'deploy.refused',
      hint: expect.stringContaining('--role-name-format "{}-eu-west-1"'),
    })
  })

  it('is reported when the call itself is refused for it', async () => {
    const {aws} = fakeAws({
      executeChangeSet: () => answerOf('EntityAlreadyExists', 'Role with name two-aggr already exists.'),
    })
    await expect(executeChangeSet(aws, 'two', CHANGE_SET)).rejects.toMatchObject({
      ...{code: 'deploy.name-taken', kind: 'conflict'},
      message: 'Stack "two" cannot be deployed: Role with name two-aggr already exists.',
      hint: expect.stringContaining('--role-name-format "{}-eu-west-1"'),
    })
  })
})

describe('two deployments of one stack at once', () => {
  it.each([
    ['ChangeSetNotFoundException', 'ChangeSet [zael-1] does not exist'],
    [
      'InvalidChangeSetStatusException',
      'ChangeSet [cs] cannot be executed in its current execution status of [OBSOLETE]',
    ],
    ['ValidationError', `Stack:${STACK_ID} is in UPDATE_IN_PROGRESS state and can not be updated.`],
  ])('reports the other deployment to the later one, when it executes its plan: %s', async (name, reason) => {
    const {aws} = fakeAws({executeChangeSet: () => answerOf(name, reason)})
    await expect(executeChangeSet(aws, 'two', CHANGE_SET)).rejects.toMatchObject({
      ...{code: 'deploy.overtaken', kind: 'conflict'},
      message: `Another deployment is changing stack "two": ${reason}`,
      hint: expect.stringMatching(/^Your changes .*zael status --stack two/),
    })
  })

  it('reports the other deployment to the later one, while it plans', async () => {
    const made = {createChangeSet: () => ({Id: 'cs', StackId: STACK_ID}), deleteChangeSet: () => ({})}
    const gone = fakeAws({...made, describeChangeSet: () => answerOf('ChangeSetNotFoundException', 'does not exist')})
    await expect(createChangeSet(gone.aws, REQUEST, instantWait())).rejects.toMatchObject({code: 'deploy.overtaken'})
    const busy = fakeAws({
      createChangeSet: () =>
        answerOf('ValidationError', 'Stack:x is in UPDATE_IN_PROGRESS state and can not be updated.'),
    })
    await expect(createChangeSet(busy.aws, REQUEST, instantWait())).rejects.toMatchObject({code: 'deploy.overtaken'})
  })

  it('does not report other errors as a conflict', async () => {
    const {aws} = fakeAws({executeChangeSet: () => answerOf('ValidationError', 'Parameters: [X] must have values')})
    await expect(executeChangeSet(aws, 'two', CHANGE_SET)).rejects.toMatchObject({code: 'aws.failed', kind: 'failed'})
  })
})

describe('the steps of an index rebuild', () => {
  it('keep the tags by which zael recognizes the stack', () => {
    const {details, hint} = needsIndexRebuild('prod', 'keys-only', 'all')
    const [, step = ''] = details.steps as string[]
    const tags = /--tags (.*)$/.exec(step)?.[1]?.split(' ') ?? []
    expect(ownerOf(Object.fromEntries(tags.map(tag => tag.split('='))))).toBe('zael')
    expect(tags).toContain('zael:name=prod')
    expect(hint).toContain('add your own tags')
  })
})

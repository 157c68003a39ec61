import {expect, it} from 'vitest'
import {followChanges} from '../../../src/lib/infra/deploy/deploy.js'
import type {DeployPlan} from '../../../src/lib/infra/deploy/plan.js'
import {fakeAws, instantWait} from '../fake-aws.js'

const STACK = 'arn:aws:cloudformation:eu-west-1:1:stack/prod/1'

const PLAN: DeployPlan = {
  stack: 'prod',
  region: 'eu-west-1',
  action: 'update',
  parameters: [],
  cloudFormationRole: null,
  terminationProtection: null,
  changeSet: {id: 'cs', name: 'zael-1', stackId: STACK, hasOwnStack: false, changes: []},
  code: 'new',
  stackId: STACK,
  hasEmptyTable: false,
  adopts: null,
  repairs: false,
  runningCode: {functionName: 'prod-aggregator', sha256Base64: 'real', isOurs: true, runtime: 'nodejs24.x'},
}

/** The hint after an update that CloudFormation has rolled back; moto cannot roll back. */
async function hintAfterRollback(getFunctionConfiguration: () => object, plan = PLAN): Promise<string> {
  const event = {EventId: '1', StackId: STACK, PhysicalResourceId: STACK, ResourceStatus: 'UPDATE_ROLLBACK_COMPLETE'}
  const {aws} = fakeAws({describeStackEvents: () => ({StackEvents: [event]}), getFunctionConfiguration})
  const followed = followChanges(aws, plan, undefined, {onEvent: () => {}}, instantWait())
  return followed.then(
    () => 'no error',
    ({hint}) => hint,
  )
}

it('reports after a rollback that everything is as before', async () => {
  const same = 'CloudFormation rolled back all changes. Fix the cause, then run the same command again.'
  expect(await hintAfterRollback(() => ({CodeSha256: 'real'}))).toBe(same)
  const unused = () => {
    throw new Error('There is no function to ask for')
  }
  expect(await hintAfterRollback(unused, {...PLAN, runningCode: null})).toBe(same)
})

it('reports after a rollback that the function has lost its code, and how to upload it again', async () => {
  expect(await hintAfterRollback(() => ({CodeSha256: 'placeholder'}))).toBe(
    'CloudFormation rolled back all changes, but the function prod-aggregator now runs other code and may not count usage. ' +
      'Upload its code again: zael deploy --stack prod. Fix the cause, then run the same command again.',
  )
})

it('reports after a rollback that the code could not be checked', async () => {
  const silent = () => {
    throw Object.assign(new Error('no route'), {code: 'ECONNRESET'})
  }
  expect(await hintAfterRollback(silent)).toBe(
    'CloudFormation rolled back all changes, but zael could not check the code of the function prod-aggregator. ' +
      'Upload its code again: zael deploy --stack prod. Fix the cause, then run the same command again.',
  )
})

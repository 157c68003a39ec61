import {describe, expect, it} from 'vitest'
import {interruptedDeletion, unfinishedDeletion} from '../../../src/lib/cli/stack/delete-run.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import type {DeletedPart} from '../../../src/lib/infra/deploy/delete.js'
import type {DeletionPlan} from '../../../src/lib/infra/deploy/delete-plan.js'

const PLAN: DeletionPlan = {
  name: 'prod',
  region: 'eu-west-1',
  deleteTable: true,
  emptyArchive: true,
  stack: {
    name: 'prod',
    id: 'arn',
    status: 'CREATE_COMPLETE',
    statusReason: null,
    createdAt: null,
    updatedAt: null,
    isTerminationProtected: false,
    role: null,
    owner: 'zael',
    parameters: {},
    outputs: {},
    tags: {},
  },
  goes: [],
  stays: [],
  table: {name: 'prod', items: 1, isProtected: false},
  archive: 'bucket',
}

const begun = (...gone: DeletedPart[]) => ({plan: PLAN, gone: new Set(gone), flags: ' --stack prod'})
const REST = 'zael delete --stack prod --delete-table --empty-archive'

describe('a deletion that is interrupted', () => {
  it.each<[string, DeletedPart[]]>([
    ['Interrupted: CloudFormation continues to delete stack "prod".', []],
    ['Interrupted: DynamoDB may continue to delete the table "prod".', ['stack']],
    ['Interrupted: the audit archive bucket is not empty yet.', ['stack', 'table']],
    ['Interrupted: everything is deleted.', ['stack', 'table', 'archive']],
  ])('reports "%s"', (message, gone) => {
    const {kind, hint, ...error} = interruptedDeletion(begun(...gone))
    expect({kind, hint}).toEqual({
      kind: 'interrupted',
      hint: `Check its state: zael status --stack prod. Then delete the rest: ${REST}`,
    })
    expect(interruptedDeletion(begun(...gone)).message).toBe(message)
    expect(error.details).toMatchObject({done: gone})
  })
})

it('suggests the same command with the role of CloudFormation', () => {
  const cloudFormationRole = 'arn:aws:iam::123456789012:role/cloudformation'
  const {hint} = interruptedDeletion({...begun(), plan: {...PLAN, cloudFormationRole}})
  expect(hint).toMatch(new RegExp(`delete the rest: ${REST} --cloudformation-role ${cloudFormationRole}$`))
})

describe('a deletion that fails', () => {
  const cause = new ZaelError('access', 'aws.denied', 'Not allowed', {hint: 'Ask for it.'})

  it('keeps an unexpected error, or one before any deletion', () => {
    expect(unfinishedDeletion(cause, begun())).toBe(cause)
    const bug = new TypeError('x')
    expect(unfinishedDeletion(bug, begun('stack'))).toBe(bug)
  })

  it('reports deleted and remaining parts and how to resume, with the exit code of the cause', () => {
    expect(unfinishedDeletion(cause, begun('stack', 'table'))).toMatchObject({
      kind: 'access',
      code: 'delete.unfinished',
      message: 'Stack "prod" and the table prod are deleted, but not the audit archive bucket: Not allowed',
      hint: `Ask for it.\nThen continue: ${REST}`,
      details: {stack: 'prod', done: ['stack', 'table'], left: ['archive'], cause: 'aws.denied'},
    })
  })

  it('suggests no command after everything is deleted', () => {
    expect(unfinishedDeletion(cause, begun('stack', 'table', 'archive'))).toMatchObject({
      message: 'Stack "prod", the table prod and the audit archive bucket are deleted: Not allowed',
    })
  })
})

import {describe, expect, it} from 'vitest'
import {
  deletionJson,
  deletionLines,
  deletionQuestion,
  stackDeletedLines,
} from '../../../src/lib/cli/stack/delete-presenter.js'
import type {DeletionPlan} from '../../../src/lib/infra/deploy/delete-plan.js'
import {schemaProblems} from '../../e2e/schemas.js'

// Lines have no columns to fit into a width: they are the same at 80 and at 120.
const resource = (logicalId: string, physicalId: string, type: string) => {
  return {logicalId, physicalId, type, status: 'CREATE_COMPLETE', statusReason: null}
}

const PLAN: DeletionPlan = {
  name: 'prod',
  region: 'eu-west-1',
  deleteTable: false,
  emptyArchive: false,
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
  goes: [
    resource('AggregatorFunction', 'prod-aggregator', 'AWS::Lambda::Function'),
    resource('AggregatorLogGroup', '/aws/lambda/prod-aggregator', 'AWS::Logs::LogGroup'),
  ],
  stays: [
    resource('Table', 'prod', 'AWS::DynamoDB::Table'),
    resource('AuditArchiveBucket', 'prod-archive', 'AWS::S3::Bucket'),
    resource('AuditArchiveBucketPolicy', 'prod-archive', 'AWS::S3::BucketPolicy'),
  ],
  table: {name: 'prod', items: 12_345, isProtected: false},
  archive: 'prod-archive',
}
const EVERYTHING = {...PLAN, deleteTable: true, emptyArchive: true}

describe('the plan of a deletion', () => {
  it('keeps table and archive by default', () => {
    expect(deletionLines(PLAN).join('\n')).toMatchInlineSnapshot(`
      "Stack "prod" in eu-west-1 (CREATE_COMPLETE)
        deleted:
          - AggregatorFunction prod-aggregator (Lambda Function)
          - AggregatorLogGroup /aws/lambda/prod-aggregator (Logs LogGroup)
        kept:
          the table prod with about 12,345 items
          the audit archive prod-archive"
    `)
    expect(deletionQuestion(PLAN)).toBe('This permanently deletes stack "prod" in eu-west-1')
  })

  it('names the data that is deleted on request', () => {
    expect(deletionLines(EVERYTHING).join('\n')).toMatchInlineSnapshot(`
      "Stack "prod" in eu-west-1 (CREATE_COMPLETE)
        deleted:
          - AggregatorFunction prod-aggregator (Lambda Function)
          - AggregatorLogGroup /aws/lambda/prod-aggregator (Logs LogGroup)
          - the table prod with about 12,345 items
          - the audit archive prod-archive"
    `)
    expect(deletionQuestion(EVERYTHING)).toBe(
      'This permanently deletes stack "prod", the table with all its data and the audit archive in eu-west-1',
    )
  })

  it('can be a table without a stack', () => {
    const lone = {...PLAN, stack: undefined, goes: [], stays: [], archive: undefined, deleteTable: true}
    expect(deletionLines(lone)).toEqual([
      'Table "prod" in eu-west-1, which belongs to no stack',
      '  deleted:',
      '    - the table prod with about 12,345 items',
    ])
    expect(deletionQuestion(lone)).toBe('This permanently deletes the table with all its data in eu-west-1')
  })
})

describe('the result of a deletion', () => {
  const kept = {stackDeleted: true, tableDeleted: false, tableLeft: true, archivedObjectsDeleted: null}
  const gone = {stackDeleted: true, tableDeleted: true, tableLeft: false, archivedObjectsDeleted: 2_000}

  it('shows kept parts, and how to delete them', () => {
    expect(stackDeletedLines(PLAN, kept).join('\n')).toMatchInlineSnapshot(`
      "Deleted stack "prod"
        kept on AWS:
          the table prod. Delete it: zael delete --stack prod --delete-table
          the audit archive prod-archive. Delete it: aws s3 rb s3://prod-archive --force"
    `)
  })

  it('shows deleted parts', () => {
    expect(stackDeletedLines(EVERYTHING, gone).join('\n')).toMatchInlineSnapshot(`
      "Deleted stack "prod"
        with its table of about 12,345 items
        with its audit archive prod-archive of 2,000 objects
        If point-in-time recovery was on, AWS keeps a final backup of the table for 35 days"
    `)
  })

  it('mentions the final backup only on AWS', () => {
    const local = {...EVERYTHING, region: null, stack: undefined, archive: undefined}
    const result = {...gone, stackDeleted: false, archivedObjectsDeleted: null}
    expect(stackDeletedLines(local, result)).toEqual(['Deleted table "prod"'])
  })

  it('does not mention a table that does not exist', () => {
    expect(stackDeletedLines(PLAN, {...kept, tableLeft: false}).join('\n')).not.toContain('the table prod;')
  })

  it('has the same JSON keys, done or planned', () => {
    const [done, planned] = [deletionJson(EVERYTHING, gone), deletionJson(PLAN, undefined)]
    expect(Object.keys(done)).toEqual(Object.keys(planned))
    expect([...schemaProblems('delete', done), ...schemaProblems('delete', planned)]).toEqual([])
  })
})

import {describe, expect, it} from 'vitest'
import {planDeletion} from '../../../src/lib/infra/deploy/delete-plan.js'
import {fakeAws, type Responses, tableLike} from '../fake-aws.js'

// The same on an emulated AWS with the built command line: test/aws/delete-again.slow.test.ts and refusals.slow.test.ts.

const ZAEL = {ManagedBy: 'zael', 'zael:type': 'limiter'}
const BUCKET = 'prod-archive'
const KEEP_DATA = {deleteTable: false, emptyArchive: false}

const stack = (tags: Readonly<Record<string, string>>, more: object = {}) => ({
  StackName: 'prod',
  StackId: 'arn:prod',
  StackStatus: 'CREATE_COMPLETE',
  Tags: Object.entries(tags).map(([Key, Value]) => ({Key, Value})),
  ...more,
})

const resource = (LogicalResourceId: string, PhysicalResourceId: string) => ({LogicalResourceId, PhysicalResourceId})

/** A deployed stack with a function, the table and an archive, of which the template retains the last two. */
const DEPLOYED: Responses = {
  describeStacks: () => ({Stacks: [stack(ZAEL)]}),
  listStackResources: () => ({
    StackResourceSummaries: [
      resource('AggregatorFunction', 'prod-aggregator'),
      resource('Table', 'prod'),
      resource('AuditArchiveBucket', BUCKET),
    ],
  }),
  getTemplate: () => ({
    TemplateBody: 'Resources: {Table: {DeletionPolicy: Retain}, AuditArchiveBucket: {DeletionPolicy: Retain}}',
  }),
  headBucket: () => ({}),
}

function failing(name: string, httpStatusCode = 400, message = name): () => never {
  return () => {
    throw Object.assign(new Error(message), {name, $metadata: {httpStatusCode}})
  }
}

const NO_STACK = failing('ValidationError', 400, 'Stack with id prod does not exist')

const plan = (responses: Responses, request = KEEP_DATA, table: object | null = {ItemCount: 7}) =>
  planDeletion(fakeAws(responses).aws, tableLike(table), request)

describe('a planned deletion', () => {
  it('keeps the resources that the deployed template retains, and deletes the rest', async () => {
    const {goes, stays, archive, table} = await plan(DEPLOYED)
    expect(goes.map(({logicalId}) => logicalId)).toEqual(['AggregatorFunction'])
    expect(stays.map(({logicalId}) => logicalId)).toEqual(['Table', 'AuditArchiveBucket'])
    expect({archive, table}).toEqual({archive: BUCKET, table: {name: 'prod', items: 7, isProtected: false}})
  })

  it('ends when it is interrupted, also while it looks for an archive that it keeps', async () => {
    const stopped = plan({...DEPLOYED, headBucket: failing('AbortError', 0)})
    await expect(stopped).rejects.toMatchObject({code: 'dynamo.aborted'})
  })

  it.each([
    ['is not a limiter', stack({team: 'billing'}), 'stack.foreign'],
    ['belongs to the Python tool', stack({ManagedBy: 'zae-limiter', 'zae-limiter:type': 'limiter'}), 'stack.python'],
    [
      'has its table under another name',
      stack(ZAEL, {Parameters: [{ParameterKey: 'TableName', ParameterValue: 'limits'}]}),
      'stack.other-table',
    ],
    ['is being changed', stack(ZAEL, {StackStatus: 'UPDATE_IN_PROGRESS'}), 'stack.state'],
    ['is protected', stack(ZAEL, {EnableTerminationProtection: true}), 'stack.protected'],
  ])('is refused for a stack that %s', async (_, found, code) => {
    const refused = plan({...DEPLOYED, describeStacks: () => ({Stacks: [found]})})
    await expect(refused).rejects.toMatchObject({code, kind: 'conflict'})
  })

  it('is refused when the table is protected and is to be deleted', async () => {
    const protectedTable = {DeletionProtectionEnabled: true}
    const refused = plan(DEPLOYED, {...KEEP_DATA, deleteTable: true}, protectedTable)
    await expect(refused).rejects.toMatchObject({code: 'table.protected'})
    await expect(plan(DEPLOYED, KEEP_DATA, protectedTable)).resolves.toMatchObject({table: {isProtected: true}})
  })

  it('is refused when the deployed template would delete the table, unless that is requested', async () => {
    const careless = {...DEPLOYED, getTemplate: () => ({TemplateBody: 'Resources: {Table: {}}'})}
    await expect(plan(careless)).rejects.toMatchObject({code: 'delete.table-not-kept'})
    await expect(plan(careless, {...KEEP_DATA, deleteTable: true})).resolves.toMatchObject({deleteTable: true})
  })
})

describe('the table of a stack', () => {
  const DELETE_TABLE = {...KEEP_DATA, deleteTable: true}
  const withTable = (StackStatus: string, ...tables: object[]): Responses => ({
    ...DEPLOYED,
    describeStacks: () => ({Stacks: [stack(ZAEL, {StackStatus})]}),
    listStackResources: () => ({StackResourceSummaries: tables}),
  })
  const listed = (ResourceStatus: string, name = 'prod') => ({...resource('Table', name), ResourceStatus})

  it.each(['CREATE_COMPLETE', 'UPDATE_FAILED', 'IMPORT_COMPLETE', 'DELETE_SKIPPED', 'DELETE_FAILED'])(
    'is deleted with it when its resource is %s, also after a failed deletion',
    async status => {
      const planned = plan(withTable('DELETE_FAILED', listed(status)), DELETE_TABLE)
      await expect(planned).resolves.toMatchObject({deleteTable: true, table: {name: 'prod'}})
    },
  )

  it.each([
    ['has no table', [], 'the stack has no table, or deleted its own'],
    ['has deleted its table', [listed('DELETE_COMPLETE')], 'the stack has no table, or deleted its own'],
    ['has another table', [listed('CREATE_COMPLETE', 'prod-2')], 'its table is "prod-2" (CREATE_COMPLETE)'],
    ['could not create its table', [listed('CREATE_FAILED')], 'its table is "prod" (CREATE_FAILED)'],
  ])('is not proven when the stack %s', async (_, tables, why) => {
    const responses = withTable('DELETE_FAILED', ...tables)
    await expect(plan(responses, DELETE_TABLE)).rejects.toMatchObject({
      code: 'delete.table-unproven',
      kind: 'conflict',
      message: `zael cannot verify that the table "prod" belongs to stack "prod" (DELETE_FAILED): ${why}.`,
      hint: expect.stringContaining('which keeps the table: zael delete --stack prod\n'),
    })
    // The suggested command.
    await expect(plan(responses)).resolves.toMatchObject({deleteTable: false})
    await expect(plan(responses, DELETE_TABLE, null)).resolves.toMatchObject({table: undefined})
  })

  it('can be kept by a stack that has deleted its own without a retain policy', async () => {
    const getTemplate = () => ({TemplateBody: 'Resources: {Table: {}}'})
    const planned = plan({...withTable('DELETE_FAILED', listed('DELETE_COMPLETE')), getTemplate})
    await expect(planned).resolves.toMatchObject({deleteTable: false})
  })

  it('is unprotected without a deployment after a failed deletion, because CloudFormation allows none', async () => {
    const refused = plan(withTable('DELETE_FAILED', listed('DELETE_SKIPPED')), DELETE_TABLE, {
      DeletionProtectionEnabled: true,
    })
    await expect(refused).rejects.toMatchObject({
      code: 'table.protected',
      hint: expect.stringContaining('aws dynamodb update-table --table-name prod --no-deletion-protection-enabled'),
    })
  })

  const DAY_S = 86_400
  const former = (kept: object, tags = ZAEL): Responses => ({
    describeStacks: ({StackName}) =>
      StackName === 'prod' ? NO_STACK() : {Stacks: [stack(tags, {CreationTime: new Date(2 * DAY_S * 1000)})]},
    listStacks: () => ({
      StackSummaries: [{StackName: 'prod', StackId: 'arn:prod', DeletionTime: new Date(4 * DAY_S * 1000)}],
    }),
    listStackResources: () => ({StackResourceSummaries: [kept]}),
  })

  it('is deleted later without a version record if the deleted stack has created and kept it', async () => {
    const CreationDateTime = 3 * DAY_S
    const planned = plan(former(listed('DELETE_SKIPPED')), DELETE_TABLE, {CreationDateTime})
    await expect(planned).resolves.toMatchObject({stack: undefined, table: {name: 'prod'}})
    const asDate = plan(former(listed('DELETE_SKIPPED')), DELETE_TABLE, {CreationDateTime: new Date(3 * DAY_S * 1000)})
    await expect(asDate).resolves.toMatchObject({table: {name: 'prod'}})
  })

  it.each([
    ['is younger than the deletion', former(listed('DELETE_SKIPPED')), 5],
    ['is older than the stack', former(listed('DELETE_SKIPPED')), 1],
    ['has no known age', former(listed('DELETE_SKIPPED')), undefined],
    ['was deleted with the stack', former(listed('DELETE_COMPLETE')), 3],
    ['has another name than that of the stack', former(listed('DELETE_SKIPPED', 'prod-2')), 3],
    ['was kept by a stack that is not zael’s', former(listed('DELETE_SKIPPED'), {} as typeof ZAEL), 3],
  ])('is not deleted later without a version record if it %s', async (_, responses, day) => {
    const refused = plan(responses, DELETE_TABLE, day === undefined ? {} : {CreationDateTime: day * DAY_S})
    await expect(refused).rejects.toMatchObject({
      code: 'table.foreign',
      message:
        'The table "prod" may not belong to a rate limiter: it has no version record, and no deleted zael stack "prod" ' +
        'left it behind.',
      hint: expect.stringContaining('If nobody needs the table: aws dynamodb delete-table --table-name prod'),
    })
  })
})

describe('the archive', () => {
  it.each([
    [200, BUCKET],
    [404, undefined],
    // The bucket exists, even though the caller may not read it.
    [403, BUCKET],
    [301, BUCKET],
  ])('whose bucket answers with status %i is %s', async (status, archive) => {
    const headBucket = status === 200 ? () => ({}) : failing('NotFound', status)
    expect((await plan({...DEPLOYED, headBucket})).archive).toBe(archive)
  })

  it('must be readable only when it is to be deleted', async () => {
    const unreadable = {...DEPLOYED, headBucket: failing('InternalError', 503)}
    expect((await plan(unreadable)).archive).toBe(BUCKET)
    const refused = plan(unreadable, {...KEEP_DATA, emptyArchive: true})
    await expect(refused).rejects.toMatchObject({code: 'aws.unavailable'})
  })

  it('of a deleted stack is that of the latest zael stack that had resources', async () => {
    const deleted = (StackId: string, day: number, StackName = 'prod') => {
      return {StackName, StackId, DeletionTime: new Date(day * 86_400_000)}
    }
    const stacks: Record<string, object> = {
      'arn:planned': stack(ZAEL),
      'arn:theirs': stack({team: 'billing'}),
      'arn:ours': stack(ZAEL),
      'arn:older': stack(ZAEL),
    }
    const archived = (name: string) => ({StackResourceSummaries: [resource('AuditArchiveBucket', name)]})
    const resources: Record<string, object> = {
      'arn:theirs': archived('their-archive'),
      'arn:ours': archived(BUCKET),
      'arn:older': archived('older-archive'),
    }
    const byId = (from: Record<string, object>, id: unknown) => from[String(id)]
    const responses: Responses = {
      describeStacks: ({StackName}) => (StackName === 'prod' ? NO_STACK() : {Stacks: [byId(stacks, StackName)]}),
      listStacks: () => ({
        StackSummaries: [
          deleted('arn:older', 1),
          deleted('arn:planned', 4),
          deleted('arn:theirs', 3),
          deleted('arn:ours', 2),
          deleted('arn:another', 5, 'other'),
        ],
      }),
      listStackResources: ({StackName}) => byId(resources, StackName) ?? {},
      headBucket: () => ({}),
    }
    const {archive, stack: found} = await plan(responses, {...KEEP_DATA, emptyArchive: true}, null)
    expect({archive, found}).toEqual({archive: BUCKET, found: undefined})
  })
})

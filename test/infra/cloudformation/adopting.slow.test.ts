import {randomUUID} from 'node:crypto'
import {expect, it} from 'vitest'
import {createTable, loadTableDefinition, type TableOptions} from '../../../src/lib/dynamo/table-definition.js'
import {planAdoption} from '../../../src/lib/infra/deploy/adoption.js'
import {deletePlanned} from '../../../src/lib/infra/deploy/delete.js'
import {planDeletion} from '../../../src/lib/infra/deploy/delete-plan.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {ensureVersion} from '../../../src/lib/repository/table/version.js'
import {describeOnEngine} from '../../helpers/table.js'
import {instantWait} from '../fake-aws.js'
import {useDeployer} from './deployer.js'

const uniqueName = (kind: string) => `${kind}-${randomUUID()}`

const [KEPT, RESTORED, PYTHON, BARE, EMPTY, ORDERS, NOTES, FAILING, OTHERS] = [
  ...['kept', 'restored', 'python', 'bare', 'empty', 'orders', 'notes', 'failing', 'others'],
].map(uniqueName) as [string, string, string, string, string, string, string, string, string]

describeOnEngine('a table that belongs to no stack', () => {
  const deployer = useDeployer([KEPT, RESTORED, PYTHON, BARE, EMPTY, ORDERS, NOTES, FAILING, OTHERS])
  const statusOf = (name: string) => deployer.server.cloudFormation.stack(name)?.status
  const namespaces = async (stack: string) => {
    const {namespaces: registry} = new Repository({stack, transport: deployer.transport})
    return (await registry.list()).map(({name}) => name)
  }
  const makeTable = async (tableName: string, options: Omit<TableOptions, 'tableName'> = {}) =>
    createTable(deployer.transport, await loadTableDefinition({...options, tableName}))
  const putVersion = (name: string) => ensureVersion(deployer.table(name), {by: 'cli:0.17.0'})

  it('is adopted with all its data after a deletion kept it', async () => {
    await deployer.deploy(KEPT)
    await new Repository({stack: KEPT, transport: deployer.transport}).namespaces.register('acme')
    const {aws} = deployer
    const deletion = await planDeletion(aws, deployer.table(KEPT), {deleteTable: false, emptyArchive: false})
    const watcher = {onEvent: () => {}, onStep: () => {}, onStart: () => {}, onGone: () => {}}
    await deletePlanned(aws, deployer.table(KEPT), deletion, watcher, instantWait())
    expect(statusOf(KEPT)).toBeUndefined()

    const plan = await deployer.plan(KEPT)
    expect(plan).toMatchObject({action: 'create', adopts: {table: KEPT}})
    const ofTable = plan.changeSet?.changes.filter(({logicalId}) => logicalId === 'Table')
    expect(ofTable).toMatchObject([{action: 'import', physicalId: KEPT}])
    const events = await deployer.execute(plan)
    expect(events.filter(({logicalId}) => logicalId === 'Table').map(({status}) => status)).toEqual([
      ...['IMPORT_IN_PROGRESS', 'IMPORT_COMPLETE', 'UPDATE_IN_PROGRESS', 'UPDATE_COMPLETE'],
    ])
    expect(statusOf(KEPT)).toBe('CREATE_COMPLETE')
    expect(await namespaces(KEPT)).toEqual(['acme', 'default'])
    // The next deployment, with the name as a function again, changes nothing.
    expect(await deployer.plan(KEPT)).toMatchObject({action: 'none', adopts: null})
  })

  it('is refused with the command to run while it lacks the stream, after a restore', async () => {
    await makeTable(RESTORED, {stream: false})
    await putVersion(RESTORED)
    await expect(deployer.plan(RESTORED)).rejects.toMatchObject({
      ...{code: 'deploy.adopt-misfit', kind: 'conflict'},
      message: `The table "${RESTORED}" cannot be adopted as it is: it has no stream.`,
      hint: expect.stringContaining(`\n  zael migrate run --stack ${RESTORED}`),
    })
    expect(statusOf(RESTORED)).toBeUndefined()
    const StreamSpecification = {StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES'} as const
    await deployer.transport.send('UpdateTable', {TableName: RESTORED, StreamSpecification})
    expect(await deployer.deploy(RESTORED)).toMatchObject({adopts: {table: RESTORED}})
  })

  it('keeps its resource index from the Python tool, and refuses another one', async () => {
    await makeTable(PYTHON, {resourceIndex: 'ALL'})
    await putVersion(PYTHON)
    await expect(deployer.plan(PYTHON, {options: {resourceIndex: 'keys-only'}})).rejects.toMatchObject({
      code: 'deploy.adopt-differs',
      message: `The table "${PYTHON}" has the resource index "all", and an import cannot change that.`,
    })
    await expect(deployer.plan(PYTHON, {options: {deletionProtection: true}})).rejects.toMatchObject({
      code: 'deploy.adopt-differs',
      details: {flag: '--deletion-protection'},
    })
    await expect(deployer.plan(PYTHON, {options: {onDemandMaxWrites: 500}})).rejects.toMatchObject({
      code: 'deploy.adopt-differs',
      message: `The table "${PYTHON}" has no maximum of write units, and an import cannot change that.`,
      details: {flag: '--on-demand-max-writes'},
    })
    await expect(deployer.plan(PYTHON, {options: {warmReads: 50_000}})).rejects.toMatchObject({
      code: 'deploy.adopt-differs',
      details: {flag: '--warm-throughput-reads'},
    })
    const plan = await deployer.deploy(PYTHON, {options: {streamStart: 'latest'}})
    expect(plan.parameters).toContainEqual({option: 'resourceIndex', before: 'KEYS_ONLY', after: 'ALL'})
    expect(await deployer.plan(PYTHON)).toMatchObject({action: 'none'})
  })

  it('keeps the maxima of its throughput', async () => {
    const table = deployer.table(PYTHON)
    const {transport} = table
    // The engines do not report it.
    const send = async (operation: string, input: object) => {
      const answer = await transport.send(operation as 'DescribeTable', input as {TableName: string})
      return operation === 'DescribeTable'
        ? {Table: {...answer.Table, OnDemandThroughput: {MaxWriteRequestUnits: 500}}}
        : answer
    }
    const bounded = {...table, transport: {send}} as unknown as typeof table
    expect(await planAdoption(deployer.aws, bounded, {})).toMatchObject({
      parameters: {OnDemandMaxReadUnits: '', OnDemandMaxWriteUnits: '500'},
    })
    expect(await planAdoption(deployer.aws, bounded, {OnDemandMaxWriteUnits: '500'})).toMatchObject({table: PYTHON})
    await expect(planAdoption(deployer.aws, bounded, {OnDemandMaxWriteUnits: ''})).rejects.toMatchObject({
      message: `The table "${PYTHON}" has a maximum of 500 write units a second, and an import cannot change that.`,
    })
  })

  it('is refused with the actual reason when it is empty or belongs to another program', async () => {
    await makeTable(EMPTY)
    await expect(deployer.plan(EMPTY)).rejects.toMatchObject({
      ...{code: 'deploy.table-empty', kind: 'conflict'},
      hint: expect.stringContaining(`aws dynamodb delete-table --table-name ${EMPTY}`),
    })
    await deployer.transport.send('CreateTable', {
      TableName: ORDERS,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}],
      KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
    })
    await expect(deployer.plan(ORDERS)).rejects.toMatchObject({
      ...{code: 'table.foreign', kind: 'conflict'},
      message: expect.stringMatching(/is not a rate limiter table: its key is id, not PK and SK\.$/),
    })
    await makeTable(NOTES)
    await deployer.transport.send('PutItem', {TableName: NOTES, Item: {PK: {S: 'note'}, SK: {S: '1'}}})
    await expect(deployer.plan(NOTES)).rejects.toMatchObject({
      code: 'table.foreign',
      message: expect.stringMatching(/it has no version record\.$/),
    })
    for (const name of [EMPTY, ORDERS, NOTES]) expect(statusOf(name)).toBeUndefined()
  })

  it('survives a failed adoption, which can be run again', async () => {
    await makeTable(FAILING)
    await putVersion(FAILING)
    const {failures} = deployer.server.cloudFormation
    failures.set('AggregatorRole', 'Not authorized to create a role')
    const plan = await deployer.plan(FAILING)
    await expect(deployer.execute(plan)).rejects.toMatchObject({
      code: 'deploy.failed',
      hint: expect.stringMatching(
        /^The table is unchanged and belongs to no stack\. An empty bucket is left: aws s3 rb s3:\/\/failing-\S+-auditarchivebucket-\S+\. /,
      ),
    })
    failures.clear()
    expect(statusOf(FAILING)).toBe('ROLLBACK_COMPLETE')
    await expect(deployer.plan(FAILING)).rejects.toMatchObject({
      code: 'deploy.table-exists',
      hint: expect.stringContaining(`zael delete --stack ${FAILING}, then zael deploy --stack ${FAILING}`),
    })
    const {aws} = deployer
    const deletion = await planDeletion(aws, deployer.table(FAILING), {deleteTable: false, emptyArchive: false})
    const watcher = {onEvent: () => {}, onStep: () => {}, onStart: () => {}, onGone: () => {}}
    const {tableLeft} = await deletePlanned(aws, deployer.table(FAILING), deletion, watcher, instantWait())
    expect(tableLeft).toBe(true)
    expect(await deployer.deploy(FAILING)).toMatchObject({adopts: {table: FAILING}})
  })

  it('is not adopted when CloudFormation would create a new one', async () => {
    await makeTable(BARE)
    await putVersion(BARE)
    // As an emulator that does not know imports.
    const {cloudFormation} = deployer.server
    const {answer} = cloudFormation
    cloudFormation.answer = async (action, input) => {
      const result = await answer.call(cloudFormation, action, input)
      if (action !== 'DescribeChangeSet') return result
      return JSON.parse(JSON.stringify(result).replaceAll('"Import"', '"Add"'))
    }
    await expect(deployer.plan(BARE)).rejects.toMatchObject({code: 'deploy.table-exists'})
    cloudFormation.answer = answer
    expect(statusOf(BARE)).toBeUndefined()
  })

  it('cannot be adopted while one of its role names is in use, and the name is reported', async () => {
    await makeTable(OTHERS)
    await putVersion(OTHERS)
    await deployer.server.cloudFormation.account.put('AWS::IAM::Role', `${OTHERS}-aggr`, {})
    await expect(deployer.plan(OTHERS)).rejects.toMatchObject({
      code: 'deploy.refused',
      message: expect.stringContaining(
        `AggregatorRole: Resource of type 'AWS::IAM::Role' with identifier '${OTHERS}-aggr' already exists.`,
      ),
      hint: expect.stringContaining('Nothing was changed. Names of roles and policies are unique'),
    })
    expect(statusOf(OTHERS)).toBeUndefined()
  })
})

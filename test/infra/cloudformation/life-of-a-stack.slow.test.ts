import {randomUUID} from 'node:crypto'
import {expect, it} from 'vitest'
import {readRollups} from '../../../src/lib/repository/usage/sum.js'
import {describeOnEngine} from '../../helpers/table.js'
import {useDeployer} from './deployer.js'

describeOnEngine('the life of a stack in CloudFormation', () => {
  const name = `life-${randomUUID()}`
  const unprotected = `unprotected-${randomUUID()}`
  const brief = `brief-${randomUUID()}`
  const uncounted = `uncounted-${randomUUID()}`
  const deployer = useDeployer([name, unprotected, brief, uncounted])

  it('keeps its code when termination protection cannot be turned on', async () => {
    // The server does not know that operation.
    await expect(deployer.deploy(unprotected, {terminationProtection: true})).rejects.toThrow('termination protection')
    expect(await deployer.plan(unprotected)).toMatchObject({action: 'none', code: 'current'})
  })

  it('is created from a plan that only adds resources', async () => {
    const plan = await deployer.plan(name)
    expect(plan.action).toBe('create')
    expect(new Set(plan.changeSet?.changes.map(({action}) => action))).toEqual(new Set(['add']))
    const events = await deployer.execute(plan)
    const ofTable = events.filter(({logicalId}) => logicalId === 'Table').map(({status}) => status)
    expect(ofTable).toEqual(['CREATE_IN_PROGRESS', 'CREATE_IN_PROGRESS', 'CREATE_COMPLETE'])
    expect(events.at(-1)).toMatchObject({status: 'CREATE_COMPLETE', isOfStack: true})
  })

  it('L4 rolls up usage from the first request, as its options say', async () => {
    const since = [expect.stringMatching(/^\d{4}-\d\d-01T00:00:00Z$/)]
    expect((await readRollups(deployer.table(name))).switches).toEqual({daily: since, monthly: since})
    await deployer.deploy(brief, {options: {usageRetentionDays: 7}})
    expect((await readRollups(deployer.table(brief))).switches).toEqual({daily: since, monthly: []})
    await deployer.deploy(uncounted, {options: {aggregator: false}})
    expect((await readRollups(deployer.table(uncounted))).switches).toEqual({daily: [], monthly: []})
  })

  it('has no changes when it is deployed again', async () => {
    expect(await deployer.plan(name)).toMatchObject({action: 'none', code: 'current'})
  })

  it('is changed by one property, with its values', async () => {
    const plan = await deployer.plan(name, {options: {lambdaMemory: 1024}})
    expect(plan.changeSet?.changes).toEqual([
      expect.objectContaining({
        action: 'change',
        logicalId: 'AggregatorFunction',
        properties: [{name: 'MemorySize', before: '512', after: '1024'}],
      }),
    ])
    const events = await deployer.execute(plan)
    expect(events.filter(({isOfStack}) => isOfStack).map(({status}) => status)).toEqual([
      'UPDATE_IN_PROGRESS',
      'UPDATE_COMPLETE_CLEANUP_IN_PROGRESS',
      'UPDATE_COMPLETE',
    ])
  })

  it('removes the resources that an option turns off', async () => {
    const plan = await deployer.plan(name, {options: {dashboard: false}})
    expect(plan.changeSet?.changes).toMatchObject([{action: 'remove', logicalId: 'Dashboard'}])
    await deployer.execute(plan)
  })

  it('is rolled back when a resource fails, with the first cause', async () => {
    deployer.server.cloudFormation.failures.set(
      'AggregatorFunction',
      'The role defined for the function cannot be assumed',
    )
    const plan = await deployer.plan(name, {options: {lambdaMemory: 2048}})
    await expect(deployer.execute(plan)).rejects.toMatchObject({
      code: 'deploy.failed',
      message: expect.stringContaining('AggregatorFunction (AWS::Lambda::Function): The role defined'),
      hint: expect.stringContaining('CloudFormation rolled back all changes'),
    })
    deployer.server.cloudFormation.failures.clear()
    expect(deployer.server.cloudFormation.stack(name)?.status).toBe('UPDATE_ROLLBACK_COMPLETE')
    expect(await deployer.plan(name)).toMatchObject({action: 'none'})
  })

  it('is not changed where CloudFormation may replace the table, except to add its resource index', async () => {
    const {resources} = deployer.server.cloudFormation.stack(name) ?? {}
    const table = resources?.get('Table')
    if (!table) throw new Error('the stack has a table')
    const isKept = ({AttributeName}: {AttributeName: string}) => !AttributeName.startsWith('GSI2')
    const AttributeDefinitions = (table.properties.AttributeDefinitions as {AttributeName: string}[]).filter(isKept)
    resources?.set('Table', {...table, properties: {...table.properties, AttributeDefinitions}})
    const refusal = {
      code: 'deploy.replaces-table',
      message: `CloudFormation may replace the table "${name}" because of AttributeDefinitions: the new one would be empty.`,
      hint: expect.stringMatching(/^Nothing was changed.* If you rebuild the resource index, add --resource-index\.$/),
    }
    await expect(deployer.plan(name)).rejects.toMatchObject(refusal)
    // The table still has its index.
    await expect(deployer.plan(name, {options: {resourceIndex: 'keys-only'}})).rejects.toMatchObject(refusal)
    await deployer.transport.send('UpdateTable', {
      TableName: name,
      GlobalSecondaryIndexUpdates: [{Delete: {IndexName: 'GSI2'}}],
    })
    // DynamoDB Local takes a moment.
    const indexes = async () => {
      const {Table} = await deployer.transport.send('DescribeTable', {TableName: name})
      return Table?.GlobalSecondaryIndexes?.map(({IndexName}) => IndexName)
    }
    await expect.poll(indexes).not.toContain('GSI2')
    await expect(deployer.plan(name)).rejects.toMatchObject(refusal)
    const plan = await deployer.plan(name, {options: {resourceIndex: 'keys-only'}})
    expect(plan.changeSet?.changes).toMatchObject([{action: 'maybe-replace', logicalId: 'Table'}])
    resources?.set('Table', table)
  })

  it('is deployed although CloudFormation throttles', async () => {
    deployer.server.throttle(2)
    expect(await deployer.plan(name)).toMatchObject({action: 'none'})
  })
})

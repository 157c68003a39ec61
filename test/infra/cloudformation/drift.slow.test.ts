import {randomUUID} from 'node:crypto'
import {beforeAll, expect, it} from 'vitest'
import {discardChangeSet} from '../../../src/lib/infra/deploy/change-set.js'
import {type DeployRequest, planDeploy} from '../../../src/lib/infra/deploy/plan.js'
import {detectDrift} from '../../../src/lib/infra/stack/drift.js'
import {describeOnEngine} from '../../helpers/table.js'
import {instantWait} from '../fake-aws.js'
import {useDeployer} from './deployer.js'

const FUNCTION = 'AWS::Lambda::Function'
const ALARM = 'AWS::CloudWatch::Alarm'

/** An answer of DescribeTable, as of a table that is protected. */
const withProtection = <T>(answer: T): T => ({
  ...answer,
  Table: {...(answer as {readonly Table?: object}).Table, DeletionProtectionEnabled: true},
})

describeOnEngine('drift', () => {
  const name = `drift-${randomUUID()}`
  const deployer = useDeployer([name])
  const detect = () => detectDrift(deployer.aws, name, instantWait())
  beforeAll(async () => {
    await deployer.deploy(name)
  })

  it('is empty after a deployment', async () => {
    expect(await detect()).toEqual([])
  })

  it('is detected, over all pages, also while another detection is in progress', async () => {
    const {account, drift, stack} = deployer.server.cloudFormation
    await account.change(FUNCTION, `${name}-aggregator`, {MemorySize: '3008'})
    await account.remove(ALARM, `${name}-aggregator-errors`)
    const deployed = stack.call(deployer.server.cloudFormation, name)
    if (!deployed) throw new Error('the stack is deployed')
    const {StackDriftDetectionId: other} = drift.start(deployed)
    // Somebody else's detection ends while this one waits for its turn.
    deployer.server.onCall = async action => {
      if (action === 'DetectStackDrift') await drift.status(other)
    }
    const found = await detect()
    deployer.server.onCall = () => {}
    expect(found).toEqual([
      {
        logicalId: 'AggregatorFunction',
        physicalId: `${name}-aggregator`,
        type: FUNCTION,
        change: 'modified',
        properties: [{path: '/MemorySize', expected: '512', actual: '3008'}],
      },
      expect.objectContaining({logicalId: 'AggregatorErrorAlarm', change: 'deleted', properties: []}),
    ])
    expect(deployer.server.takeCalls().filter(call => call === 'DetectStackDrift').length).toBeGreaterThan(2)
  })

  it('is unknown when CloudFormation cannot compare, or does not finish', async () => {
    const {drift} = deployer.server.cloudFormation
    drift.failure = 'Failed to detect drift on resource [AggregatorRole]'
    await expect(detect()).rejects.toMatchObject({
      code: 'stack.drift-failed',
      message: expect.stringContaining('Failed to detect drift on resource [AggregatorRole]'),
    })
    drift.failure = undefined
    const {start, status} = drift
    drift.start = () => ({StackDriftDetectionId: 'endless'})
    drift.status = async id => ({StackDriftDetectionId: id, DetectionStatus: 'DETECTION_IN_PROGRESS'})
    await expect(detect()).rejects.toMatchObject({
      code: 'stack.drift-slow',
      hint: expect.stringContaining(`zael status --stack ${name} --drift`),
    })
    Object.assign(drift, {start, status})
  })

  it('is not part of a plan, which compares templates, and is reverted by a repair', async () => {
    expect(await deployer.plan(name)).toMatchObject({action: 'none', repairs: false})
    const plan = await deployer.plan(name, {repair: true})
    expect(plan).toMatchObject({action: 'update', repairs: true})
    expect(plan.changeSet?.changes).toEqual([
      expect.objectContaining({
        action: 'change',
        logicalId: 'AggregatorFunction',
        properties: [{name: 'MemorySize', before: '3008', after: '512'}],
      }),
      expect.objectContaining({action: 'restore', logicalId: 'AggregatorErrorAlarm'}),
    ])
    await deployer.execute(plan)
    expect(await detect()).toEqual([])
  })

  it.each(['Add', 'Modify'] as const)(
    'is repaired by a plain deployment when the function is missing, listed as %s',
    async recreatedAs => {
      const {cloudFormation} = deployer.server
      cloudFormation.recreatedAs = recreatedAs
      await cloudFormation.account.remove(FUNCTION, `${name}-aggregator`)
      const plan = await deployer.plan(name)
      expect(plan).toMatchObject({repairs: true, code: 'new'})
      expect(plan.changeSet?.changes).toMatchObject([{action: 'restore', logicalId: 'AggregatorFunction'}])
      await deployer.execute(plan)
      expect(await deployer.plan(name)).toMatchObject({action: 'none', code: 'current', repairs: false})
    },
  )

  it('is repaired by a plain deployment when the event source is missing', async () => {
    const {account, stack} = deployer.server.cloudFormation
    const id = stack
      .call(deployer.server.cloudFormation, name)
      ?.resources.get('AggregatorEventSourceMapping')?.physicalId
    await account.remove('AWS::Lambda::EventSourceMapping', id ?? '')
    const plan = await deployer.plan(name)
    expect(plan.changeSet?.changes).toMatchObject([{action: 'restore', logicalId: 'AggregatorEventSourceMapping'}])
    await deployer.execute(plan)
  })

  it('is kept where it protects the table: a repair makes it an option of the stack, unless a value is given', async () => {
    const table = deployer.table(name)
    const send: typeof table.transport.send = async (operation, ...rest) => {
      const answer = await table.transport.send(operation, ...rest)
      // The engines have no deletion protection.
      return operation === 'DescribeTable' ? withProtection(answer) : answer
    }
    const plan = (options: DeployRequest['options']) =>
      planDeploy(
        deployer.aws,
        {...table, transport: {...table.transport, send}},
        {stack: name, version: '0.1.0', options, tags: {}, removedTags: [], repair: true},
        instantWait(),
      )
    const {parameters, changeSet} = await plan({})
    expect(parameters).toMatchObject([{option: 'deletionProtection', after: 'true'}])
    if (changeSet) await discardChangeSet(deployer.aws, changeSet)
    expect(await plan({deletionProtection: false})).toMatchObject({action: 'none', parameters: []})
  })

  it('is never repaired by creating an empty table: a lost one must be restored', async () => {
    await deployer.transport.send('DeleteTable', {TableName: name})
    for (const repair of [true, false])
      await expect(deployer.plan(name, {repair})).rejects.toMatchObject({
        ...{code: 'deploy.table-gone', kind: 'conflict'},
        hint: expect.stringContaining('docs/operations.md#restoring-a-lost-table'),
      })
    expect(deployer.server.cloudFormation.stack(name)?.changeSets.size).toBe(0)
  })
})

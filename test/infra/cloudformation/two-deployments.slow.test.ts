import {randomUUID} from 'node:crypto'
import {expect, it} from 'vitest'
import {discardChangeSet} from '../../../src/lib/infra/deploy/change-set.js'
import type {DeployPlan} from '../../../src/lib/infra/deploy/plan.js'
import {describeOnEngine} from '../../helpers/table.js'
import {useDeployer} from './deployer.js'

const OVERTAKEN = {code: 'deploy.overtaken', kind: 'conflict'}

const [NEW, DROPPED, CREATED, CHANGED, ADOPTED] = ['new', 'dropped', 'created', 'changed', 'adopted'].map(
  kind => `${kind}-${randomUUID()}`,
) as [string, string, string, string, string]

describeOnEngine('two deployments at once', () => {
  const deployer = useDeployer([NEW, DROPPED, CREATED, CHANGED, ADOPTED])
  const stackNamed = (name: string) => deployer.server.cloudFormation.stack(name)
  const memory = (lambdaMemory: number) => ({options: {lambdaMemory}})
  const memoryOf = (name: string) => stackNamed(name)?.resolved?.parameters.LambdaMemorySize
  const discard = ({changeSet}: DeployPlan) => changeSet && discardChangeSet(deployer.aws, changeSet)

  it('of a new name: executes one as previewed, and reports the conflict to the other, which changes nothing', async () => {
    const first = await deployer.plan(NEW, memory(1024))
    const second = await deployer.plan(NEW, memory(2048))
    await deployer.execute(second)
    await expect(deployer.execute(first)).rejects.toMatchObject(OVERTAKEN)
    await discard(first)
    expect(memoryOf(NEW)).toBe('2048')
    expect(stackNamed(NEW)?.status).toBe('CREATE_COMPLETE')
  })

  it('of a new name: discarding one keeps the stack of the other', async () => {
    const first = await deployer.plan(DROPPED, memory(1024))
    const second = await deployer.plan(DROPPED, memory(2048))
    await discard(first)
    await deployer.execute(second)
    expect(memoryOf(DROPPED)).toBe('2048')
  })

  it('of a new name: discarding both leaves no empty stack', async () => {
    await deployer.server.cloudFormation.account.remove('AWS::DynamoDB::Table', DROPPED)
    const name = `${DROPPED}-2`
    const first = await deployer.plan(name, memory(1024))
    const second = await deployer.plan(name, memory(2048))
    await discard(first)
    await discard(second)
    expect(stackNamed(name)).toBeUndefined()
  })

  it('of a new name: reports the conflict to one that plans while the other creates the stack', async () => {
    const first = await deployer.plan(CREATED, memory(1024))
    let isOther = false
    deployer.server.onCall = async action => {
      if (action !== 'CreateChangeSet' || isOther) return
      isOther = true
      await deployer.execute(first)
    }
    const second = deployer.plan(CREATED, memory(2048))
    await expect(second).rejects.toMatchObject(OVERTAKEN)
    deployer.server.onCall = () => {}
    expect(memoryOf(CREATED)).toBe('1024')
  })

  it('of an existing stack: reports the conflict to the later one, while the earlier one runs and afterwards', async () => {
    await deployer.deploy(CHANGED)
    const [first, second, third] = [
      await deployer.plan(CHANGED, memory(1024)),
      await deployer.plan(CHANGED, memory(2048)),
      await deployer.plan(CHANGED, memory(4096)),
    ]
    deployer.server.cloudFormation.stepsPerRead = 0
    const {startChanges} = await import('../../../src/lib/infra/deploy/deploy.js')
    await startChanges(deployer.aws, first)
    expect(stackNamed(CHANGED)?.status).toBe('UPDATE_IN_PROGRESS')
    await expect(startChanges(deployer.aws, second)).rejects.toMatchObject(OVERTAKEN)
    await expect(deployer.plan(CHANGED, memory(512))).rejects.toMatchObject({code: 'stack.state', kind: 'conflict'})
    deployer.server.cloudFormation.stepsPerRead = 40
    await stackNamed(CHANGED)?.advance(1000)
    await expect(startChanges(deployer.aws, third)).rejects.toMatchObject(OVERTAKEN)
    expect(memoryOf(CHANGED)).toBe('1024')
  })
})

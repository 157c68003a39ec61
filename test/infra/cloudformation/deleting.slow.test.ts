import {randomUUID} from 'node:crypto'
import {expect, it} from 'vitest'
import {deletePlanned} from '../../../src/lib/infra/deploy/delete.js'
import {planDeletion} from '../../../src/lib/infra/deploy/delete-plan.js'
import {followChanges, startChanges} from '../../../src/lib/infra/deploy/deploy.js'
import {describeOnEngine} from '../../helpers/table.js'
import {instantWait} from '../fake-aws.js'
import {useDeployer} from './deployer.js'

const KEEP_TABLE = {deleteTable: false, emptyArchive: false}
const DELETE_TABLE = {deleteTable: true, emptyArchive: false}
const WATCHER = {onEvent() {}, onStep() {}, onStart() {}, onGone() {}}

describeOnEngine('a deletion that CloudFormation could not finish', () => {
  const finished = `done-${randomUUID()}`
  const unfinished = `early-${randomUUID()}`
  const deployer = useDeployer([finished, unfinished])

  const remove = async (name: string, request = DELETE_TABLE) => {
    const table = deployer.table(name)
    const plan = await planDeletion(deployer.aws, table, request)
    return deletePlanned(deployer.aws, table, plan, WATCHER, instantWait())
  }

  /** Leaves the stack in DELETE_FAILED. */
  async function failToDelete(name: string): Promise<void> {
    const {failures, stack} = deployer.server.cloudFormation
    failures.set('AggregatorRole', 'Cannot delete entity, must detach all policies first.')
    await expect(remove(name)).rejects.toMatchObject({code: 'delete.failed'})
    failures.clear()
    expect(stack.call(deployer.server.cloudFormation, name)?.status).toBe('DELETE_FAILED')
  }

  /** As `deploy --no-wait` without a second run: the table has no version record. */
  async function deployOnly(name: string): Promise<void> {
    const planned = await deployer.plan(name)
    const since = await startChanges(deployer.aws, planned)
    await followChanges(deployer.aws, planned, since, WATCHER, instantWait())
  }

  it('is finished by the same command, with the table', async () => {
    await deployer.deploy(finished)
    await failToDelete(finished)
    expect(await remove(finished)).toMatchObject({stackDeleted: true, tableDeleted: true, tableLeft: false})
  })

  it('leaves a table that can be deleted after the stack, even without a version record', async () => {
    await deployOnly(unfinished)
    await failToDelete(unfinished)
    expect(await remove(unfinished, KEEP_TABLE)).toMatchObject({stackDeleted: true, tableLeft: true})
    expect(await remove(unfinished)).toMatchObject({stackDeleted: false, tableDeleted: true, tableLeft: false})
  })
})

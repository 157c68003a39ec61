import {afterAll, beforeAll, inject} from 'vitest'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import type {ClosableTransport} from '../../../src/lib/dynamo/transport.js'
import {createTransport} from '../../../src/lib/dynamo/transports/create.js'
import {type Aws, openAws} from '../../../src/lib/infra/aws/clients.js'
import {finishStack, followChanges, startChanges} from '../../../src/lib/infra/deploy/deploy.js'
import {type DeployPlan, type DeployRequest, planDeploy} from '../../../src/lib/infra/deploy/plan.js'
import type {StackEvent} from '../../../src/lib/infra/stack/events.js'
import {openTable} from '../../../src/lib/repository/table/open-table.js'
import type {Table} from '../../../src/lib/repository/table/table.js'
import {instantWait} from '../fake-aws.js'
import {type CloudFormationServer, startCloudFormation} from './server.js'

/** Deploys through the library, without pauses. */
export interface Deployer {
  readonly server: CloudFormationServer
  readonly aws: Aws
  readonly transport: ClosableTransport
  table(stack: string): Table
  plan(stack: string, request?: Partial<DeployRequest>): Promise<DeployPlan>
  /** Executes a plan; returns its events. */
  execute(plan: DeployPlan): Promise<StackEvent[]>
  /** Plans and executes. */
  deploy(stack: string, request?: Partial<DeployRequest>): Promise<DeployPlan>
}

const VERSION = '0.1.0'

/** A server and a deployer for the tests of one `describe`; the tables with these names are deleted at the end. */
export function useDeployer(tables: readonly string[]): Deployer {
  const transport = createTransport({
    connection: resolveConnection({endpointUrl: inject('engineEndpoint')}, {}),
    clock: Date.now,
  })
  let server: CloudFormationServer | undefined
  let aws: Aws | undefined
  beforeAll(async () => {
    server = await startCloudFormation()
    aws = openAws({endpointUrl: server.endpoint, region: 'eu-west-1'}, {})
  })
  afterAll(async () => {
    for (const TableName of tables) await transport.send('DeleteTable', {TableName}).catch(() => {})
    aws?.[Symbol.dispose]()
    await server?.[Symbol.asyncDispose]()
    await transport.close()
  })
  const started = <T>(each: T | undefined): T => {
    if (each === undefined) throw new Error('the server is started by beforeAll')
    return each
  }
  const deployer: Deployer = {
    get server() {
      return started(server)
    },
    get aws() {
      return started(aws)
    },
    transport,
    table: stack => openTable({stack, transport}).table,
    plan: (stack, request = {}) =>
      planDeploy(
        deployer.aws,
        deployer.table(stack),
        {stack, version: VERSION, options: {}, tags: {}, removedTags: [], ...request},
        instantWait(),
      ),
    async execute(plan) {
      const events: StackEvent[] = []
      const watcher = {onEvent: (event: StackEvent) => events.push(event), onStep: () => {}}
      const since = await startChanges(deployer.aws, plan)
      await followChanges(deployer.aws, plan, since, watcher, instantWait())
      await finishStack(deployer.aws, deployer.table(plan.stack), {version: VERSION, plan}, watcher, instantWait())
      return events
    },
    async deploy(stack, request) {
      const plan = await deployer.plan(stack, request)
      await deployer.execute(plan)
      return plan
    },
  }
  return deployer
}

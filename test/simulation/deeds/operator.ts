import {ZaelError} from '../../../src/lib/core/errors.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {type Deed, RESOURCE} from '../scenario.js'
import type {Writer} from '../world/table-writes.js'
import {OTHERS, STACK, TENANT, type World} from '../world/world.js'
import type {Stage} from './stage.js'

/** What operators do; where it fails, it fails: their errors are theirs to judge. */
export async function operate(stage: Stage, deed: Deed): Promise<void> {
  const {world, oracles} = stage
  const writer: Writer = {kind: 'operator', process: OTHERS, deed: deed.kind}
  const operation = stage.begin(OTHERS, deed.kind)
  try {
    await carryOut(world, writer, deed)
    world.note(`operator ${deed.kind} done`)
  } catch (error) {
    world.note(`operator ${deed.kind} ${(error as Error).name}`)
    if (!(error instanceof ZaelError)) oracles.answers.failed(`operator ${deed.kind}`, error)
  } finally {
    stage.end(operation)
  }
}

async function carryOut(world: World, writer: Writer, deed: Deed): Promise<void> {
  const repository = world.repository(writer)
  const tenant = repository.namespaceById(world.namespace)
  switch (deed.kind) {
    case 'set-limits':
      await tenant.setLimits(deed.scope, deed.limits, {replace: true})
      return
    case 'delete-limits':
      await tenant.deleteLimits(deed.scope)
      return
    case 'reset':
      await tenant.resetBucket(deed.entity, RESOURCE)
      return
    case 'split': {
      const table = world.tenantTable(writer)
      const count = await currentShards(world, writer, deed.entity)
      await splitBucket(table, deed.entity, RESOURCE, count)
      return
    }
    case 'switch':
      await tenant.setAccess({level: 'entity', entity: deed.entity, resource: RESOURCE}, deed.access)
      return
    case 'delete-entity':
      await tenant.entities.delete(deed.entity)
      return
    case 'purge':
      await repository.namespaces.delete(TENANT)
      await repository.namespaces.purge(world.namespace)
      return
    default:
      throw new Error(`operators do not ${deed.kind}`)
  }
}

async function currentShards(world: World, writer: Writer, entity: string): Promise<number> {
  const bucket = await world.repository(writer).namespaceById(world.namespace).buckets.find(entity, RESOURCE)
  return bucket?.shardCount ?? 1
}

/** The table drops items whose time has come, as it does at any moment from then on. */
export function expire(world: World): void {
  const writer: Writer = {kind: 'expiry', process: OTHERS}
  const nowSeconds = Math.floor(world.time.nowMs / 1000)
  for (const item of world.items) {
    const {ttl, PK, SK} = item
    if (!ttl || !('N' in ttl) || Number(ttl.N) > nowSeconds) continue
    world.carryOut(writer, 'DeleteItem', {TableName: STACK, Key: {PK, SK}})
  }
}

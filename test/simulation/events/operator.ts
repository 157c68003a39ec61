import {LIFETIME_MULTIPLIER, neededUntilSeconds} from '../../../src/lib/core/buckets/bucket.js'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {shareOfRecord} from '../../../src/lib/limiter/queue/known-bucket.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {decodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {isFamilyEvent} from '../oracles/families.js'
import {RESOURCE, type ScenarioEvent} from '../scenario.js'
import {bucketId, type Writer} from '../world/table-writes.js'
import {OTHERS, STACK, TENANT, type World} from '../world/world.js'
import type {Stage} from './stage.js'

/** Retries of a top-up whose response was lost. */
const MOST_TRIES = 2

/** Plays an operator's action. Failures are ignored: operators see their own errors. */
export async function operate(stage: Stage, event: ScenarioEvent): Promise<void> {
  const {world, oracles} = stage
  const writer: Writer = {kind: 'operator', process: OTHERS, event: event.kind}
  const operation = stage.begin(OTHERS, event.kind)
  const endFamily = isFamilyEvent(event) ? oracles.families.begin(event, world.time.nowMs) : undefined
  try {
    const beganMs = world.time.nowMs
    await carryOut(stage, writer, event)
    endFamily?.(true, world.time.nowMs)
    if (event.kind === 'set-access') oracles.quotas.switches.noteReturned(beganMs, world.time.nowMs)
    world.note(`operator ${event.kind} done`)
  } catch (error) {
    endFamily?.(false, world.time.nowMs)
    world.note(`operator ${event.kind} ${(error as Error).name}`)
    if (!(error instanceof ZaelError)) oracles.answers.failed(`operator ${event.kind}`, error)
  } finally {
    stage.end(operation)
  }
}

async function carryOut(stage: Stage, writer: Writer, event: ScenarioEvent): Promise<void> {
  const {world} = stage
  const repository = world.repository(writer)
  const tenant = repository.namespaceById(world.namespace)
  switch (event.kind) {
    case 'set-limits':
      await tenant.setLimits(event.scope, event.limits, {replace: true})
      return
    case 'boost':
      await tenant.setLimits(event.scope, event.limits, {until: new Date(event.untilMs)})
      return
    case 'delete-limits':
      await tenant.deleteLimits(event.scope)
      return
    case 'set-access':
      await tenant.setAccess(event.scope, event.access)
      return
    case 'set-cascade':
      await tenant.setCascade(event.scope, event.cascade)
      return
    case 'move':
      await tenant.entities.update(event.entity, {parent: event.parent ?? null, cascade: event.parent !== undefined})
      return
    case 'reset':
      await tenant.resetBucket({entity: event.entity, resource: RESOURCE})
      return
    case 'top-up':
      return topUp(stage, writer, event)
    case 'split': {
      const table = world.tenantTable(writer)
      const count = await currentShards(world, writer, event.entity)
      await splitBucket(table, event.entity, RESOURCE, count)
      return
    }
    case 'delete-entity':
      await tenant.entities.delete(event.entity)
      return
    case 'purge':
      await repository.namespaces.delete(TENANT)
      await repository.namespaces.purge(world.namespace)
      return
    default:
      throw new Error(`operators do not ${event.kind}`)
  }
}

/** Retries a failed top-up with the same key, as a script does. */
async function topUp(stage: Stage, writer: Writer, event: ScenarioEvent & {readonly kind: 'top-up'}): Promise<void> {
  const {world, oracles} = stage
  const {entity, tokens, key: idempotencyKey, limit} = event
  const tenant = world.repository(writer).namespaceById(world.namespace)
  const bucket = bucketId(world.namespace, entity, RESOURCE)
  if (limit) oracles.topUps.noteAsked(bucket, idempotencyKey, limit, tokens)
  else oracles.quotas.topUps.noteAsked(bucket, idempotencyKey, tokens)
  for (let tries = 0; ; tries++) {
    try {
      await tenant.topUpBucket({entity, resource: RESOURCE}, {[limit ?? 'q']: tokens}, {idempotencyKey})
      if (limit) return oracles.topUps.noteDone(bucket, idempotencyKey, limit)
      return oracles.quotas.topUps.noteDone(bucket, idempotencyKey)
    } catch (error) {
      const isLost = error instanceof ZaelError && error.kind === 'failed'
      if (!isLost || tries >= MOST_TRIES) throw error
    }
  }
}

async function currentShards(world: World, writer: Writer, entity: string): Promise<number> {
  const bucket = await world.repository(writer).namespaceById(world.namespace).buckets.find(entity, RESOURCE)
  return bucket?.shardCount ?? 1
}

/**
 * Deletes expired items, as DynamoDB may do at any moment. Buckets expire as early as after a zae-limiter write: seven
 * fill times instead of seven days.
 */
export function expire(world: World): void {
  const writer: Writer = {kind: 'expiry', process: OTHERS}
  const nowSeconds = Math.floor(world.time.nowMs / 1000)
  for (const item of world.items) {
    const {ttl, PK, SK} = item
    if (!ttl || !('N' in ttl) || Math.min(Number(ttl.N), briefExpiry(item)) > nowSeconds) continue
    world.carryOut(writer, 'DeleteItem', {TableName: STACK, Key: {PK, SK}})
  }
}

function briefExpiry(item: Item): number {
  const stored = decodeBucket(item)
  if (stored?.kind !== 'bucket') return Infinity
  const {limits, refilledAtMs} = shareOfRecord(stored.record)
  return neededUntilSeconds(limits.values(), LIFETIME_MULTIPLIER, refilledAtMs)
}

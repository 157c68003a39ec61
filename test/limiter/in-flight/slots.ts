import {decodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import type {BucketSlots} from '../../../src/lib/schema/slot-attributes.js'
import type {Scene} from '../../helpers/limiter.js'

/** The stored slots of a bucket. */
export async function slotsIn(scene: Scene, entity: string, resource: string): Promise<BucketSlots | undefined> {
  const Key = wireKey(keys.bucket(scene.namespace, entity, resource, 0))
  const {Item} = await scene.table.transport.send('GetItem', {TableName: scene.table.name, Key, ConsistentRead: true})
  const stored = Item && decodeBucket(Item)
  return stored?.kind === 'bucket' ? stored.record.slots : undefined
}

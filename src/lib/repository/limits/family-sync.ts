import {decodeEntity} from '../../schema/entity-record.js'
import {familyOf, isOlderGeneration, isSameFamily} from '../../schema/family.js'
import {keys} from '../../schema/keys.js'
import {addressOf} from '../buckets/buckets.js'
import {familyUpdate} from '../buckets/family-write.js'
import {stampStoredBucket} from '../buckets/rewrite.js'
import {getItem} from '../table/table.js'
import type {AlignShard, BucketSync} from './bucket-sync.js'

/**
 * Buckets get the parent of their entity, and whether it is charged too: a bucket may be older than the entity's record,
 * than its parent, or than a policy (D-25, G7). Read again after the write, so that of several concurrent changes the last
 * one ends up in the bucket. The generation of a move is stamped as well, and never lowered: a client that has read the
 * entity before the move then cannot undo it.
 */
const alignFamily: AlignShard = async ({table, resolve, signal}, shard) => {
  const {entity, resource} = addressOf(shard)
  return stampStoredBucket(
    table,
    shard,
    async ({record}, isAsFound) => {
      const [{cascade}, item] = await Promise.all([
        resolve({entity, resource}, isAsFound),
        getItem(table, keys.entity(table.namespace, entity), {signal}),
      ])
      const family = familyOf(item && decodeEntity(item), cascade?.cascade)
      const isMoved = isOlderGeneration(record.parentGeneration, family.parentGeneration)
      // Planted fault: a move does not reach buckets
      if (isSameFamily(record, family) && !isMoved) return undefined
      return mark => familyUpdate(table, record, family, mark)
    },
    {signal, isRepeated: true},
  )
}

export const familySync: BucketSync = {align: alignFamily, isThorough: true}

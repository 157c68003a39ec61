import {addressOf} from '../buckets/buckets.js'
import {stampStoredBucket} from '../buckets/rewrite.js'
import {stampUpdate} from '../buckets/switch-write.js'
import type {AlignShard, BucketSync} from './bucket-sync.js'

/** Buckets are stamped with the switch that applies to them, which may be one of another level. */
const stampSwitch: AlignShard = async ({table, resolve, signal}, shard) => {
  const address = addressOf(shard)
  const {entity, resource} = address
  return stampStoredBucket(
    table,
    shard,
    async ({record}, isAsFound) => {
      const {access, readAtMs} = await resolve({entity, resource}, isAsFound)
      return mark => stampUpdate(table, address, {access: access?.access ?? 'enabled', readAtMs}, mark, record)
    },
    {signal},
  )
}

export const switchSync: BucketSync = {align: stampSwitch, isThorough: true}

import {string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {bucketListing} from '../../lib/cli/bucket/presenter.js'
import type {BucketListResult} from '../../lib/cli/bucket/results.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'
import type {Streamed} from '../../lib/cli/output/results.js'

export default class BucketList extends StackCommand<typeof BucketList> {
  static override summary = 'List the buckets of a resource'

  static override description =
    'Sorts by entity and adds up the shards of each bucket. Levels include the refill since the last write. Writes ' +
    'nothing.'

  static override flags = {
    resource: string({char: 'r', description: 'Resource name.', required: true, helpValue: 'NAME'}),
    ...listFlags,
    ...pageFlags,
  }

  static override examples = [
    {command: 'zael bucket list --resource gpt-4', description: 'The first 50 buckets'},
    {command: 'zael bucket list --resource gpt-4 --all --sort full', description: 'All buckets, emptiest first'},
  ]

  protected async work(): Promise<BucketListResult | Streamed> {
    const {resource, limit, all, cursor} = this.flags
    const {bucketsFor, walkBuckets} = await import('../../lib/insight/lookup/bucket-search.js')
    const namespace = await this.stack.namespace()
    const nowMs = this.stack.table.clock()
    const units = await namespace.configs.units()
    if (all) {
      return this.listAll({
        before: {resource},
        field: 'buckets',
        items: walkBuckets(namespace, resource, nowMs),
        json: bucket => bucket,
        listing: (buckets, isMore) => bucketListing(buckets, nowMs, units, isMore),
      })
    }
    const {records, next} = await bucketsFor(namespace, resource, {limit, cursor}, nowMs)
    await this.list(bucketListing(records, nowMs, units))
    this.suggestNextPage(next)
    return {resource, buckets: records, next: next ?? null}
  }
}

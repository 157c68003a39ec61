import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {bucketTitle, shardListing} from '../../lib/cli/data/bucket-presenter.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class BucketShow extends StackCommand<typeof BucketShow> {
  static override summary = 'Show how full the buckets of an entity are, shard by shard'

  static override description =
    'What has refilled since the last write is counted in. "pressure" is the part of the 1,000 writes per second, which ' +
    'one item takes, that is in use; "age" is the time since the last refill was written. Nothing is written.'

  static override args = {
    entity: string({description: 'Whose buckets.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Only the bucket for this.', helpValue: 'RESOURCE'}),
    ...listFlags,
  }

  static override examples = [
    {command: 'zael bucket show user-1', description: 'All buckets of an entity'},
    {command: 'zael bucket show user-1 --resource gpt-4', description: 'One of them'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {entity} = this.args
    const {bucketsOf} = await import('../../lib/inspect/bucket-search.js')
    const nowMs = stack.table.clock()
    const buckets = await bucketsOf(await stack.namespace(), entity, this.flags.resource, nowMs)
    this.log(bucketTitle(entity, buckets))
    this.list(shardListing(buckets, nowMs, this.format === 'csv'))
    return {entity, buckets}
  }
}

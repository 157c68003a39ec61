import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {bucketTitle, inFlightLines, shardListing} from '../../lib/cli/bucket/presenter.js'
import type {BucketShowResult} from '../../lib/cli/bucket/results.js'
import {inFlightJson} from '../../lib/cli/holders/presenter.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class BucketShow extends StackCommand<typeof BucketShow> {
  static override summary = 'Show the bucket levels of an entity, shard by shard'

  static override description =
    'Levels include the refill since the last write. "pressure" is the write rate as a share of the 1,000 writes per ' +
    'second that DynamoDB allows per item. "age" is the time since the last written refill. For in-flight limits, ' +
    'shows who holds slots, and when each process last renewed them. Writes nothing.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Show only the bucket for this resource.', helpValue: 'NAME'}),
    ...listFlags,
  }

  static override examples = [
    {command: 'zael bucket show user-1', description: 'All buckets of an entity'},
    {command: 'zael bucket show user-1 --resource gpt-4', description: 'One bucket'},
  ]

  protected async work(): Promise<BucketShowResult> {
    const {entity} = this.args
    const {bucketsOf} = await import('../../lib/insight/lookup/bucket-search.js')
    const nowMs = this.stack.table.clock()
    const namespace = await this.stack.namespace()
    const buckets = await bucketsOf(namespace, entity, this.flags.resource, nowMs)
    const listing = shardListing(buckets, nowMs, this.format === 'csv', await namespace.configs.units())
    await this.list(listing, bucketTitle(entity, buckets))
    this.print(inFlightLines(buckets, nowMs))
    return {entity, buckets: buckets.map(bucket => ({...bucket, inFlight: inFlightJson(bucket.inFlight)}))}
  }
}

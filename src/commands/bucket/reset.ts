import {string} from '@oclif/core/args'
import {boolean, string as stringFlag} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {resetLine} from '../../lib/cli/data/bucket-presenter.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import type {BucketResetResult} from '../../lib/cli/results/bucket.js'

export default class BucketReset extends StackCommand<typeof BucketReset> {
  static override summary = 'Refill a bucket and clear its debt'

  static override description =
    'Sets every limit of the bucket to its capacity, on every shard. Recorded usage does not change. An audit event is ' +
    'written.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Resource name.', required: true, helpValue: 'RESOURCE'}),
    yes: boolean({char: 'y', description: 'Do not ask for confirmation.'}),
  }

  static override examples = [
    {command: 'zael bucket reset user-1 --resource gpt-4', description: 'Ask, then refill'},
    {command: 'zael bucket reset user-1 --resource gpt-4 --yes', description: 'In a script'},
  ]

  protected async work(stack: StackContext): Promise<BucketResetResult> {
    const {entity} = this.args
    const {resource, yes} = this.flags
    const repository = await stack.namespace()
    const {bucketsOf} = await import('../../lib/inspect/bucket-search.js')
    // Throws for a missing bucket before asking for confirmation.
    await bucketsOf(repository, entity, resource, stack.table.clock())
    await confirm(`This refills every limit of ${entity} for ${resource} and clears its debt`, {yes})
    const {shards, reset, ghosts} = await repository.resetBucket(entity, resource)
    this.log(resetLine(entity, resource, {shards, reset, ghosts}))
    return {entity, resource, shards, reset, ghosts}
  }
}

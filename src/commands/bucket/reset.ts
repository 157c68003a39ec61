import {string} from '@oclif/core/args'
import {boolean, string as stringFlag} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {resetLine} from '../../lib/cli/data/bucket-presenter.js'
import {confirm} from '../../lib/cli/output/confirm.js'

export default class BucketReset extends StackCommand<typeof BucketReset> {
  static override summary = 'Fill a bucket and forgive its debts'

  static override description =
    'Every limit of the bucket is full afterwards, on every shard. What was consumed stays counted as usage. An audit ' +
    'event is written.'

  static override args = {
    entity: string({description: 'Whose bucket.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'What is limited.', required: true, helpValue: 'RESOURCE'}),
    yes: boolean({char: 'y', description: 'Do not ask.'}),
  }

  static override examples = [
    {command: 'zael bucket reset user-1 --resource gpt-4', description: 'Ask, then fill it'},
    {command: 'zael bucket reset user-1 --resource gpt-4 --yes', description: 'In a script'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {entity} = this.args
    const {resource, yes} = this.flags
    const repository = await stack.namespace()
    const {bucketsOf} = await import('../../lib/inspect/bucket-search.js')
    // Nobody is asked about a bucket that is not there.
    await bucketsOf(repository, entity, resource, stack.table.clock())
    await confirm(`This fills every limit of ${entity} for ${resource} and forgives its debts`, {yes})
    const result = await repository.resetBucket(entity, resource)
    this.log(resetLine(entity, resource, result))
    return {entity, resource, ...result}
  }
}

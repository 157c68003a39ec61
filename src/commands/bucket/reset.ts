import {string} from '@oclif/core/args'
import {boolean, string as stringFlag} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {idempotencyKey, resetBucket, resetQuestion} from '../../lib/cli/bucket/operations.js'
import type {BucketResetResult} from '../../lib/cli/bucket/results.js'
import {confirm} from '../../lib/cli/output/confirm.js'

export default class BucketReset extends StackCommand<typeof BucketReset> {
  static override summary = 'Refill a bucket and clear its debt'

  static override description =
    'Sets every limit of the bucket, or those given, to its capacity, on all shards at once. A quota starts a new period, ' +
    'without what was topped up; a session ends, and the next use opens it anew. Recorded usage does not change. An audit ' +
    'event is written. With --idempotency-key the command can be repeated: the bucket is reset once.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Resource name.', required: true, helpValue: 'RESOURCE'}),
    only: stringFlag({description: 'Reset only this limit; may be repeated.', helpValue: 'LIMIT', multiple: true}),
    'idempotency-key': idempotencyKey,
    yes: boolean({char: 'y', description: 'Do not ask for confirmation.'}),
  }

  static override examples = [
    {command: 'zael bucket reset user-1 --resource gpt-4', description: 'Ask, then refill'},
    {command: 'zael bucket reset user-1 --resource gpt-4 --only rpd', description: 'One of its limits'},
    {
      command: 'zael bucket reset user-1 --resource gpt-4 --idempotency-key case-17 --yes',
      description: 'In a script that may run twice',
    },
  ]

  protected async work(): Promise<BucketResetResult> {
    const {entity} = this.args
    const {resource, only: limits, 'idempotency-key': idempotencyKey, yes} = this.flags
    const request = {entity, resource, limits, idempotencyKey}
    const repository = await this.stack.namespace()
    const {bucketsOf} = await import('../../lib/insight/lookup/bucket-search.js')
    // Throw for a missing bucket before asking for confirmation.
    if (idempotencyKey === undefined) await bucketsOf(repository, entity, resource, this.stack.table.clock())
    await confirm(resetQuestion(request), {yes})
    const {lines, result} = await resetBucket(repository, request)
    this.print(lines)
    return result
  }
}

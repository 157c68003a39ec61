import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {idempotencyKey, resetBucket, resetQuestion} from '../../lib/cli/bucket/operations.js'
import type {BucketResetResult} from '../../lib/cli/bucket/results.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'

export default class BucketReset extends StackCommand<typeof BucketReset> {
  static override summary = 'Refill a bucket and clear its debt'

  static override description =
    'Sets all limits of the bucket, or the limits given with --only, to their capacity, on all shards at once. A ' +
    'quota starts a new period and loses top-ups. A session quota closes its session; the next use opens a new ' +
    'one. Recorded usage does not change. Writes an audit event. With --idempotency-key, repeated commands reset ' +
    'the bucket once.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Resource name.', required: true, helpValue: 'NAME'}),
    only: stringFlag({description: 'Reset only this limit. Repeatable.', helpValue: 'LIMIT', multiple: true}),
    'idempotency-key': idempotencyKey,
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael bucket reset user-1 --resource gpt-4', description: 'Ask, then refill'},
    {command: 'zael bucket reset user-1 --resource gpt-4 --only rpd', description: 'Reset one limit'},
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
    return this.show(await resetBucket(repository, request))
  }
}

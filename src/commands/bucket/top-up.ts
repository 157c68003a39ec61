import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {idempotencyKey, topUpJson, topUpLines, topUpQuestion} from '../../lib/cli/bucket/operations.js'
import type {BucketTopUpResult} from '../../lib/cli/bucket/results.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'

export default class BucketTopUp extends StackCommand<typeof BucketTopUp> {
  static override summary = 'Add tokens to a bucket'

  static override description =
    'A quota gets the exact amount until its next reset, even above its allowance. A session quota without an ' +
    'open session opens one. A rate is filled up to its capacity at most. Recorded usage does not change. Writes ' +
    'an audit event. With --idempotency-key, repeated commands add the amount once.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
    amounts: string({
      description: "Amounts per limit, such as tpm=5000 or 'usd=$5'.",
      required: true,
      multiple: true,
      ignoreStdin: true,
    }),
  }

  static override flags = {
    'idempotency-key': idempotencyKey,
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael bucket top-up user-1 gpt-4 rpd=500', description: '500 more requests until the day ends'},
    {
      command: "zael bucket top-up user-1 gpt-4 'usd=$5' --idempotency-key order-1742 --yes",
      description: 'A purchase, in a script that may run twice',
    },
  ]

  protected async work(): Promise<BucketTopUpResult> {
    const {entity, resource, amounts} = this.args
    const {'idempotency-key': key, yes} = this.flags
    const {parseAmounts, tokensIn} = await import('../../lib/core/limits/amount-text.js')
    const parsed = parseAmounts(amounts)
    const repository = await this.stack.namespace()
    const units = await repository.configs.units()
    const asked = tokensIn(parsed, units)
    const [{topUpEffects}, {newNameNotice}] = await Promise.all([
      import('../../lib/insight/lookup/bucket-search.js'),
      import('../../lib/insight/lookup/known-names.js'),
    ])
    const effects = yes ? [] : await topUpEffects(repository, {entity, resource}, asked, this.stack.table.clock())
    const notice = await newNameNotice(repository, {level: 'entity', entity, resource})
    if (notice !== undefined) this.warn(notice)
    await confirm(topUpQuestion({entity, resource, units}, amounts, effects), {yes})
    const result = await repository.topUpBucket({entity, resource}, asked, {idempotencyKey: key})
    this.print(topUpLines({entity, resource, result, units}, asked))
    return topUpJson({entity, resource, result}, asked)
  }
}

import {string} from '@oclif/core/args'
import {whyJson, whyLines} from '../lib/cli/acquire/why-presenter.js'
import type {StackContext} from '../lib/cli/base/context.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import type {WhyResult} from '../lib/cli/results/acquire.js'

export default class Why extends StackCommand<typeof Why> {
  static override summary = 'Explain why a request is refused, and what helps'

  static override description =
    'For each limit: how much is left, where it is set, how often it refused lately, the level of each shard, which entities consumed a shared one in ' +
    'this hour, when the request would be admitted, and which commands help. Nothing is consumed or changed.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
    amounts: string({
      description:
        'Amount per limit, such as rpm=1 or usd=$0.05; defaults to the average request of the last 24 hours.',
      multiple: true,
      ignoreStdin: true,
    }),
  }

  static override examples = [
    {command: 'zael why user-1 gpt-4', description: 'The average request of the last 24 hours'},
    {command: 'zael why user-1 gpt-4 rpm=1 tpm=8k', description: 'A specific request'},
    {command: 'zael why user-1 gpt-4 --json', description: 'As JSON'},
  ]

  protected async work(stack: StackContext): Promise<WhyResult> {
    const {entity, resource, amounts = []} = this.args
    const [{explain}, {parseAmounts, tokensIn}] = await Promise.all([
      import('../lib/inspect/explain.js'),
      import('../lib/core/syntax/amounts.js'),
    ])
    const asked = parseAmounts(amounts)
    const namespace = await stack.namespace()
    const consume = asked.size === 0 ? undefined : tokensIn(asked, await namespace.configs.units())
    const explanation = await explain(namespace, {entity, resource, consume}, stack.table.clock)
    const where = typedFlags(this.settings)
    this.print(whyLines(explanation, where))
    return whyJson(explanation, where)
  }
}

import {string} from '@oclif/core/args'
import {whyJson, whyLines} from '../lib/cli/acquire/why-presenter.js'
import type {StackContext} from '../lib/cli/base/context.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'

export default class Why extends StackCommand<typeof Why> {
  static override summary = 'Explain why a request is refused, and what helps'

  static override description =
    'For each limit: how much is left, who set it, which shard holds what, who drained a shared one in this hour, when ' +
    'it clears, and which command would lift it. Nothing is charged or changed.'

  static override args = {
    entity: string({description: 'Id of the entity.', required: true, ignoreStdin: true}),
    resource: string({description: 'Name of the resource.', required: true, ignoreStdin: true}),
    amounts: string({
      description: 'Tokens per limit, such as rpm=1; one of each limit unless said.',
      multiple: true,
      ignoreStdin: true,
    }),
  }

  static override examples = [
    {command: 'zael why user-1 gpt-4', description: 'One token of every limit that applies'},
    {command: 'zael why user-1 gpt-4 rpm=1 tpm=8k', description: 'This very request'},
    {command: 'zael why user-1 gpt-4 --json', description: 'For programs'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {entity, resource, amounts = []} = this.args
    const [{explain}, {parseConsumption}] = await Promise.all([
      import('../lib/inspect/explain.js'),
      import('../lib/core/consumption.js'),
    ])
    const consume = amounts.length === 0 ? undefined : parseConsumption(amounts)
    const explanation = await explain(await stack.namespace(), {entity, resource, consume}, stack.table.clock)
    const where = typedFlags(this.settings)
    this.log(whyLines(explanation, where).join('\n'))
    return whyJson(explanation, where)
  }
}

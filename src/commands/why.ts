import {string} from '@oclif/core/args'
import {boolean, string as stringFlag} from '@oclif/core/flags'
import type {WhyResult} from '../lib/cli/acquire/results.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import type {Streamed} from '../lib/cli/output/results.js'

export default class Why extends StackCommand<typeof Why> {
  static override summary = 'Explain why a request is refused, and what helps'

  static override description =
    'For each limit: how much is left, where it is set, how often it refused lately, the level of each shard, which entities consumed a shared one in ' +
    'this hour, when the request would be admitted, and which commands help. Without a resource: all that the entity uses or has limits for, ' +
    'worst first. Nothing is consumed or changed.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    // oclif allows several words only for the last argument: the resource, then the amounts.
    resource: string({
      description:
        'Resource name, then an amount per limit, such as rpm=1 or usd=$0.05. All resources of the entity when omitted; ' +
        'amounts default to the average request of the bucket, as in zael watch.',
      multiple: true,
      ignoreStdin: true,
    }),
  }

  static override flags = {
    follow: boolean({
      char: 'f',
      description: 'Keep looking until Ctrl-C; without a terminal, prints a line per resource each time.',
    }),
    interval: stringFlag({
      description: 'Time between two looks; 5s by default.',
      dependsOn: ['follow'],
      helpValue: 'DURATION',
    }),
  }

  static override examples = [
    {command: 'zael why user-1 gpt-4', description: 'The average request of the bucket'},
    {command: 'zael why user-1', description: 'All resources of an entity, worst first'},
    {command: 'zael why user-1 gpt-4 rpm=1 tpm=8k', description: 'A specific request'},
    {command: 'zael why user-1 --follow', description: 'Keep looking until Ctrl-C'},
  ]

  protected async work(): Promise<WhyResult | Streamed> {
    const {whyRequest, lookWith, presentWhy, runFollow} = await import('../lib/cli/acquire/why-run.js')
    const {entity, resource: [resource, ...amounts] = []} = this.args
    const request = whyRequest({entity, resource, amounts, ...this.flags})
    const look = await lookWith(this.stack, request)
    const where = typedFlags(this.settings)
    if (!request.follow) {
      const {lines, json} = presentWhy(await look(), request, where)
      this.print(lines)
      return json
    }
    this.isStream = true
    process.exitCode = await runFollow(look, request, {isJson: this.jsonEnabled(), where})
    return {}
  }
}

import {string} from '@oclif/core/args'
import {boolean, string as stringFlag} from '@oclif/core/flags'
import type {WhyResult} from '../lib/cli/acquire/results.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import type {Streamed} from '../lib/cli/output/results.js'

export default class Why extends StackCommand<typeof Why> {
  static override summary = 'Explain why a request is refused, and how to fix it'

  static override description =
    'Shows the balance of each limit, its scope, recent refusals, shard levels and, for the limit of a parent, its ' +
    'largest consumers of this hour. Predicts when the request will be admitted and suggests commands. Without a ' +
    'resource, shows every resource that the entity uses or has limits for, worst first. For an unknown entity, ' +
    'shows the limits that its first request would get; without a resource, exits with 3. Consumes and changes ' +
    'nothing.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    // oclif allows several words only for the last argument: the resource, then the amounts.
    resource: string({
      description:
        "Resource name, then an amount per limit, such as rpm=1 or 'usd=$0.05'. " +
        'Default: all resources, with the average request of each bucket.',
      multiple: true,
      ignoreStdin: true,
    }),
  }

  static override flags = {
    follow: boolean({
      char: 'f',
      description: 'Refresh until Ctrl-C. Without a terminal, print one line per resource each time.',
    }),
    interval: stringFlag({
      description: 'Time between refreshes. Default: 5s.',
      dependsOn: ['follow'],
      helpValue: 'DURATION',
    }),
  }

  static override examples = [
    {command: 'zael why user-1 gpt-4', description: 'An average request'},
    {command: 'zael why user-1', description: 'All resources of an entity, worst first'},
    {command: 'zael why user-1 gpt-4 rpm=1 tpm=8k', description: 'A specific request'},
    {command: 'zael why user-1 --follow', description: 'Refresh until Ctrl-C'},
  ]

  protected async work(): Promise<WhyResult | Streamed> {
    const {whyRequest, lookWith, presentWhy, runFollow} = await import('../lib/cli/acquire/why-run.js')
    const {entity, resource: [resource, ...amounts] = []} = this.args
    const request = whyRequest({entity, resource, amounts, ...this.flags})
    const look = await lookWith(this.stack, request)
    const where = typedFlags(this.settings)
    if (!request.follow) {
      const {lines, json} = presentWhy(await look(), request, where)
      const {namespace} = this.flags
      this.print([...(namespace === undefined || namespace === 'default' ? [] : [`Namespace ${namespace}`]), ...lines])
      return json
    }
    this.isStream = true
    process.exitCode = await runFollow(look, request, {isJson: this.jsonEnabled(), where})
    return {}
  }
}

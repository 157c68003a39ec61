import {string} from '@oclif/core/args'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class ResourceBypass extends StackCommand<typeof ResourceBypass> {
  static override summary = 'Admit every request for a resource, and only count it'

  static override description =
    'Nothing is refused and nothing is taken, so the balances are as before when the bypass ends; usage is counted. Processes ' +
    'follow with their next write; what they refuse without one follows within a second, a request that is larger than a ' +
    'limit holds within a minute. An entity with a switch of its own follows that one. A parent that shares the charges ' +
    'has a switch of its own. `zael resource enable` and `clear` end it: on buckets that they reach at once, on any other within a minute.'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael resource bypass gpt-4', description: 'For all entities'},
    {command: 'zael resource bypass gpt-4 --json', description: 'With the number of buckets that were updated'},
  ]

  protected async work(): Promise<SwitchResult> {
    const where = typedFlags(this.settings)
    const {changeSwitch, resourceScope} = await import('../../lib/cli/limits/switch.js')
    const scope = resourceScope(this.args.resource)
    const {lines, result, warnings} = await changeSwitch(await this.stack.namespace(), scope, 'bypass', {where})
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

import {string} from '@oclif/core/args'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class ResourceBypass extends StackCommand<typeof ResourceBypass> {
  static override summary = 'Admit and count every request for a resource'

  static override description =
    'Requests count in usage but consume no tokens. Processes follow within a second; a request larger than the ' +
    'capacity of a limit is admitted within a minute. If an entity or a parent has its own switch, that ' +
    'switch applies. `zael resource enable` and `clear` end the bypass within a minute.'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael resource bypass gpt-4', description: 'For all entities'},
    {command: 'zael resource bypass gpt-4 --json', description: 'With the number of updated buckets'},
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

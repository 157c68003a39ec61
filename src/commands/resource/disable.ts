import {string} from '@oclif/core/args'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class ResourceDisable extends StackCommand<typeof ResourceDisable> {
  static override summary = 'Refuse every request for a resource'

  static override description =
    'Once the command returns, no process admits a new request; only requests already in flight can still be admitted. ' +
    'Refused requests are not charged. If an entity has its own switch, that switch applies.'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael resource disable gpt-4', description: 'For all entities'},
    {command: 'zael resource disable gpt-4 --json', description: 'With the number of updated buckets'},
  ]

  protected async work(): Promise<SwitchResult> {
    const where = typedFlags(this.settings)
    const {changeSwitch, resourceScope} = await import('../../lib/cli/limits/switch.js')
    const scope = resourceScope(this.args.resource)
    const {lines, result, warnings} = await changeSwitch(await this.stack.namespace(), scope, 'disabled', {where})
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

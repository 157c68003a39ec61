import {string} from '@oclif/core/args'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class ResourceClear extends StackCommand<typeof ResourceClear> {
  static override summary = 'Remove the disable, enable or bypass switch of a resource'

  static override description =
    'A resource without a switch is enabled. Live buckets follow the switch that then applies to them.'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael resource clear gpt-4', description: 'For all entities'},
    {command: 'zael resource clear gpt-4 --json', description: 'With the number of updated buckets'},
  ]

  protected async work(): Promise<SwitchResult> {
    const where = typedFlags(this.settings)
    const {changeSwitch, resourceScope} = await import('../../lib/cli/limits/switch.js')
    const scope = resourceScope(this.args.resource)
    const {lines, result, warnings} = await changeSwitch(await this.stack.namespace(), scope, undefined, {where})
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

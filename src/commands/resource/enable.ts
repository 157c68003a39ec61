import {string} from '@oclif/core/args'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class ResourceEnable extends StackCommand<typeof ResourceEnable> {
  static override summary = 'Admit requests for a resource again'

  static override description =
    'Ends `zael resource disable` and `bypass`. Processes admit requests within the limits after at most a second. If ' +
    'an entity has its own switch, that switch applies.'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael resource enable gpt-4', description: 'For all entities'},
    {command: 'zael resource enable gpt-4 --json', description: 'With the number of updated buckets'},
  ]

  protected async work(): Promise<SwitchResult> {
    const where = typedFlags(this.settings)
    const {changeSwitch, resourceScope} = await import('../../lib/cli/limits/switch.js')
    const scope = resourceScope(this.args.resource)
    const {lines, result, warnings} = await changeSwitch(await this.stack.namespace(), scope, 'enabled', {where})
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

import {string} from '@oclif/core/args'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class ResourceEnable extends StackCommand<typeof ResourceEnable> {
  static override summary = 'Admit requests for a resource again'

  static override description =
    'Lifts `zael resource disable` and `bypass`. Processes admit requests again within a second, within the limits. An entity with ' +
    'a switch of its own follows that one.'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael resource enable gpt-4', description: 'For all entities'},
    {command: 'zael resource enable gpt-4 --json', description: 'With the number of buckets that were updated'},
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

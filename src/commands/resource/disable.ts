import {string} from '@oclif/core/args'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class ResourceDisable extends StackCommand<typeof ResourceDisable> {
  static override summary = 'Refuse every request for a resource'

  static override description =
    'From the return of the command on no process admits a request for the resource, beyond those in flight. The condition of ' +
    'their own write refuses them, so nothing is charged. An entity with a switch of its own follows that one.'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael resource disable gpt-4', description: 'For all entities'},
    {command: 'zael resource disable gpt-4 --json', description: 'With the number of buckets that were updated'},
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

import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class EntityClear extends StackCommand<typeof EntityClear> {
  static override summary = 'Remove the disable, enable or bypass switch of an entity'

  static override description =
    'Live buckets then follow the next switch: the switch of the entity for all resources, or the switch of the ' +
    'resource.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Only this resource. Default: all resources.', helpValue: 'NAME'}),
  }

  static override examples = [
    {command: 'zael entity clear user-7', description: 'For all resources'},
    {command: 'zael entity clear user-7 --resource gpt-4', description: 'For one resource'},
  ]

  protected async work(): Promise<SwitchResult> {
    const where = typedFlags(this.settings)
    const {changeSwitch, entityScope} = await import('../../lib/cli/limits/switch.js')
    const scope = entityScope(this.args.id, this.flags.resource)
    const {lines, result, warnings} = await changeSwitch(await this.stack.namespace(), scope, undefined, {where})
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

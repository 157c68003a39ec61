import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class EntityEnable extends StackCommand<typeof EntityEnable> {
  static override summary = 'Admit requests of an entity again'

  static override description =
    'Overrides the switch of a resource for this entity. Processes admit requests within a second. The most specific ' +
    'switch applies: entity and resource, entity, resource.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Only this resource. Default: all resources.', helpValue: 'NAME'}),
  }

  static override examples = [
    {command: 'zael entity enable user-7', description: 'For all resources'},
    {command: 'zael entity enable user-7 --resource gpt-4', description: 'For one resource'},
  ]

  protected async work(): Promise<SwitchResult> {
    const where = typedFlags(this.settings)
    const {changeSwitch, entityScope} = await import('../../lib/cli/limits/switch.js')
    const scope = entityScope(this.args.id, this.flags.resource)
    const {lines, result, warnings} = await changeSwitch(await this.stack.namespace(), scope, 'enabled', {where})
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

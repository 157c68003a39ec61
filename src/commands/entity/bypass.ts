import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {SwitchResult} from '../../lib/cli/limits/results.js'

export default class EntityBypass extends StackCommand<typeof EntityBypass> {
  static override summary = 'Admit every request of an entity, and only count it'

  static override description =
    'Nothing is refused and nothing is taken, so the balances are as before when the bypass ends; usage is counted. Processes ' +
    'follow with their next write; what they refuse without one follows within a second, a request that is larger than a ' +
    'limit holds within a minute. A parent that shares the charges has a switch of its own. The most specific switch counts: ' +
    'of the entity for the resource, of the entity, of the resource. `zael entity enable` and `clear` end it: on buckets ' +
    'that they reach at once, on any other within a minute.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Only for this resource; otherwise for all.', helpValue: 'NAME'}),
  }

  static override examples = [
    {command: 'zael entity bypass user-7', description: 'For all resources'},
    {command: 'zael entity bypass user-7 --resource gpt-4', description: 'For one resource'},
  ]

  protected async work(): Promise<SwitchResult> {
    const where = typedFlags(this.settings)
    const {changeSwitch, entityScope} = await import('../../lib/cli/limits/switch.js')
    const scope = entityScope(this.args.id, this.flags.resource)
    const {lines, result, warnings} = await changeSwitch(await this.stack.namespace(), scope, 'bypass', {where})
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {CascadeResult} from '../../lib/cli/limits/results.js'
import {cascadeArg, entitySwitchFlags} from '../../lib/cli/limits/switch-command.js'

export default class EntityCascade extends StackCommand<typeof EntityCascade> {
  static override summary = 'Set whether an entity also charges its parent'

  static override description =
    'Updates live buckets before it returns. The most specific policy applies: entity and resource, then entity, ' +
    "then resource (`zael resource cascade`). Without a policy, the entity's --cascade setting applies."

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    policy: cascadeArg('on charges the parent, off does not, clear removes the policy.'),
  }

  static override flags = entitySwitchFlags

  static override examples = [
    {
      command: 'zael entity cascade user-7 off --resource gpt-4',
      description: 'Do not charge the parent for one resource',
    },
    {command: 'zael entity cascade user-7 on', description: 'Charge the parent for all resources'},
    {command: 'zael entity cascade user-7 clear', description: 'Remove the policy'},
  ]

  protected async work(): Promise<CascadeResult> {
    const {changeCascade, entityScope} = await import('../../lib/cli/limits/switch.js')
    const {id, policy} = this.args
    const scope = entityScope(id, this.flags.resource)
    return this.show(await changeCascade(await this.stack.namespace(), scope, policy))
  }
}

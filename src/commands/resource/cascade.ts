import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {CascadeResult} from '../../lib/cli/limits/results.js'
import {cascadeArg} from '../../lib/cli/limits/switch-command.js'

export default class ResourceCascade extends StackCommand<typeof ResourceCascade> {
  static override summary = 'Set whether requests for a resource also charge parents'

  static override description =
    'Updates live buckets before it returns. The most specific policy applies: entity and resource, then entity ' +
    "(`zael entity cascade`), then resource. Without a policy, the entity's --cascade setting applies."

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
    policy: cascadeArg('on charges parents, off does not, clear removes the policy.'),
  }

  static override examples = [
    {command: 'zael resource cascade gpt-4 off', description: 'Charge only the entity'},
    {command: 'zael resource cascade gpt-4 on', description: 'Charge the parent of every entity that has one'},
    {command: 'zael resource cascade gpt-4 clear', description: 'Remove the policy'},
  ]

  protected async work(): Promise<CascadeResult> {
    const {changeCascade, resourceScope} = await import('../../lib/cli/limits/switch.js')
    const {resource, policy} = this.args
    return this.show(await changeCascade(await this.stack.namespace(), resourceScope(resource), policy))
  }
}

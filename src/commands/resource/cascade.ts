import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {CascadeResult} from '../../lib/cli/limits/results.js'

export default class ResourceCascade extends StackCommand<typeof ResourceCascade> {
  static override summary = 'Say whether requests for a resource are charged to the parent too'

  static override description =
    'Live buckets follow before the command ends. The most specific policy counts: of the entity for the resource, of the ' +
    'entity, of the resource (`zael entity cascade`). Where none is set, the entity decides (`zael entity update --cascade`).'

  static override args = {
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
    policy: string({
      description: 'Charge parents, do not, or leave it to the entity.',
      options: ['on', 'off', 'clear'],
      required: true,
      ignoreStdin: true,
    }),
  }

  static override examples = [
    {command: 'zael resource cascade gpt-4 off', description: 'Charge nobody but the entity'},
    {command: 'zael resource cascade gpt-4 on', description: 'Charge the parent of every entity that has one'},
    {command: 'zael resource cascade gpt-4 clear', description: 'As each entity was created'},
  ]

  protected async work(): Promise<CascadeResult> {
    const {changeCascade, resourceScope} = await import('../../lib/cli/limits/switch.js')
    const {resource, policy} = this.args
    const {lines, result, warnings} = await changeCascade(await this.stack.namespace(), resourceScope(resource), policy)
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

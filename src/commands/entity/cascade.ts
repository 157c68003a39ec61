import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {CascadeResult} from '../../lib/cli/limits/results.js'

export default class EntityCascade extends StackCommand<typeof EntityCascade> {
  static override summary =
    'Say whether requests of an entity are charged to its parent too, whatever is set for the resource'

  static override description =
    'Live buckets follow before the command ends. The most specific policy counts: of the entity for the resource, of the ' +
    'entity, of the resource (`zael resource cascade`). Where none is set, what `zael entity update --cascade` has set counts.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    policy: string({
      description: 'Charge the parent, do not, or leave it to the resource.',
      options: ['on', 'off', 'clear'],
      required: true,
      ignoreStdin: true,
    }),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Only for this resource; otherwise for all.', helpValue: 'NAME'}),
  }

  static override examples = [
    {
      command: 'zael entity cascade user-7 off --resource gpt-4',
      description: 'Do not charge its parent for one resource',
    },
    {command: 'zael entity cascade user-7 on', description: 'Charge its parent for all resources'},
    {command: 'zael entity cascade user-7 clear', description: 'As is set for the resource, or for the entity itself'},
  ]

  protected async work(): Promise<CascadeResult> {
    const {changeCascade, entityScope} = await import('../../lib/cli/limits/switch.js')
    const {id, policy} = this.args
    const scope = entityScope(id, this.flags.resource)
    const {lines, result, warnings} = await changeCascade(await this.stack.namespace(), scope, policy)
    this.print(lines)
    for (const warning of warnings) this.warn(warning)
    return result
  }
}

import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {resolveJson, resolveLines} from '../../lib/cli/limits/resolve-presenter.js'
import type {LimitsResolveResult} from '../../lib/cli/limits/results.js'
import {InvalidInput} from '../../lib/core/errors.js'

export default class LimitsResolve extends StackCommand<typeof LimitsResolve> {
  static override summary = 'Show the limits that apply to an entity and resource'

  static override description =
    'Shows every level. The most specific level with limits applies as a whole. If requests also charge a parent, ' +
    'shows the limits of the parent too.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    resource: string({description: 'Resource name.', ignoreStdin: true}),
  }

  static override flags = {
    resource: stringFlag({char: 'r', description: 'Resource name, instead of the second argument.', helpValue: 'NAME'}),
  }

  static override examples = [
    {command: 'zael limits resolve user-1 gpt-4', description: 'The limits that apply, and where they are set'},
    {command: 'zael limits resolve user-1 --resource gpt-4 --json', description: 'As JSON'},
  ]

  protected async work(): Promise<LimitsResolveResult> {
    const {entity} = this.args
    const resource = this.args.resource ?? this.flags.resource
    if (resource === undefined || (this.args.resource !== undefined && this.flags.resource !== undefined)) {
      throw new InvalidInput('limits.resource', 'Exactly one resource must be given.', {
        hint: `zael limits resolve ${entity} RESOURCE`,
      })
    }
    const {resolveFamily} = await import('../../lib/insight/lookup/family-limits.js')
    const family = await resolveFamily(await this.stack.namespace(), entity, resource)
    this.print(await resolveLines(family, this.lineWidth))
    return resolveJson(family)
  }
}

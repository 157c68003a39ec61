import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {scopeFlags, scopeOf} from '../../lib/cli/flags/scope.js'
import {configJson} from '../../lib/cli/limits/json.js'
import {configLines} from '../../lib/cli/limits/presenter.js'

export default class LimitsGet extends StackCommand<typeof LimitsGet> {
  static override summary = 'Show the limits of one scope as they are configured'

  static override description =
    'Only what is set at exactly this level. What applies to a request in the end is told by `zael limits resolve`.'

  static override flags = scopeFlags

  static override examples = [
    {command: 'zael limits get --resource gpt-4', description: 'The limits of a resource'},
    {command: 'zael limits get --entity team-1', description: 'The limits of an entity for every resource'},
    {command: 'zael limits get --system --json', description: 'For programs'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const scope = scopeOf(this.flags)
    const {getConfigured} = await import('../../lib/repository/limits/pages.js')
    const record = await getConfigured((await stack.namespace()).configs, scope)
    this.log(configLines(record).join('\n'))
    return configJson(record)
  }
}

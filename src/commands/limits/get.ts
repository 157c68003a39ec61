import {scopeFlags, scopeOf} from '../../lib/cli/base/scope.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {configJson} from '../../lib/cli/limits/json.js'
import {configLines} from '../../lib/cli/limits/presenter.js'
import type {LimitsGetResult} from '../../lib/cli/limits/results.js'

export default class LimitsGet extends StackCommand<typeof LimitsGet> {
  static override summary = 'Show the limits configured for one scope'

  static override description =
    'Shows only limits set for exactly this scope. `zael limits resolve` shows the limits that apply to a request.'

  static override flags = scopeFlags

  static override examples = [
    {command: 'zael limits get --resource gpt-4', description: 'The limits of a resource'},
    {command: 'zael limits get --entity team-1', description: 'The limits of an entity for all resources'},
    {command: 'zael limits get --system --json', description: 'As JSON'},
  ]

  protected async work(): Promise<LimitsGetResult> {
    const scope = scopeOf(this.flags)
    const {getConfigured} = await import('../../lib/repository/limits/limit-pages.js')
    const record = await getConfigured((await this.stack.namespace()).configs, scope)
    this.print(configLines(record))
    return configJson(record)
  }
}

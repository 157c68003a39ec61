import {option} from '@oclif/core/flags'
import {BaseCommand} from '../../lib/cli/base/base-command.js'
import type {LocalEnvResult} from '../../lib/cli/results/local.js'

export default class LocalEnv extends BaseCommand<typeof LocalEnv> {
  static override summary = 'Print environment variables that point programs to the local stack'

  static override flags = {
    format: option({
      char: 'f',
      options: ['sh', 'fish', 'powershell', 'dotenv'] as const,
      default: 'sh',
      description: 'Output syntax.',
    })(),
  }

  static override examples = [
    {command: 'eval "$(zael local env)"', description: 'In sh, bash and zsh'},
    {command: 'zael local env --format fish | source', description: 'In fish'},
    {command: 'zael local env --format dotenv > .env', description: 'For tools that read a file'},
  ]

  async run(): Promise<LocalEnvResult> {
    const [{formatVariables, localVariables}, {requireStack}, {findStateDir}] = await Promise.all([
      import('../../lib/local/shell-env.js'),
      import('../../lib/local/find.js'),
      import('../../lib/local/state-dir/paths.js'),
    ])
    const {state} = await requireStack(findStateDir())
    const variables = localVariables(state.endpoint)
    this.print(formatVariables(variables, this.flags.format))
    return {variables}
  }
}

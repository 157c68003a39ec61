import {boolean, option} from '@oclif/core/flags'
import {BaseCommand} from '../../lib/cli/base/base-command.js'
import type {LocalEnvResult} from '../../lib/cli/stack/results.js'

export default class LocalEnv extends BaseCommand<typeof LocalEnv> {
  static override summary = 'Print environment variables for the local stack'

  static override flags = {
    format: option({
      char: 'f',
      options: ['sh', 'fish', 'powershell', 'dotenv'] as const,
      default: 'sh',
      description: 'Output syntax.',
    })(),
    unset: boolean({
      description: 'Unset these variables, even if the stack is not running.',
    }),
  }

  static override examples = [
    {command: 'eval "$(zael local env)"', description: 'In sh, bash and zsh'},
    {command: 'zael local env --format fish | source', description: 'In fish'},
    {command: 'eval "$(zael local env --unset)"', description: 'Switch back to AWS'},
    {command: 'zael local env --format dotenv > .env', description: 'For tools that read .env files'},
  ]

  async run(): Promise<LocalEnvResult> {
    const [{formatUnset, formatVariables, localVariables, localVariablesIn}, {requireStack}, {findStateDir}] =
      await Promise.all([
        import('../../lib/local/shell-env.js'),
        import('../../lib/local/find.js'),
        import('../../lib/local/state-dir/state.js'),
      ])
    const {format} = this.flags
    if (this.flags.unset) {
      const unset = localVariablesIn(process.env)
      for (const line of formatUnset(unset, format)) this.logExactly(line)
      return {variables: {}, unset}
    }
    const {state} = await requireStack(findStateDir())
    const variables = localVariables(state.endpoint)
    for (const line of formatVariables(variables, format)) this.logExactly(line)
    return {variables, unset: []}
  }
}

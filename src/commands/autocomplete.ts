import {option} from '@oclif/core/args'
import {BaseCommand} from '../lib/cli/base/base-command.js'
import {COMPLETION_SCRIPTS, SHELLS} from '../lib/cli/completion/scripts.js'
import type {AutocompleteResult} from '../lib/cli/help/results.js'

export default class Autocomplete extends BaseCommand<typeof Autocomplete> {
  static override summary = 'Print a shell completion script'

  static override description =
    'Completes commands, flags, flag values, and the names of namespaces, entities and resources in the selected stack. ' +
    'The first line of the script explains where to install it.'

  static override args = {
    shell: option({options: SHELLS, ignoreStdin: true, description: 'Shell to generate the script for.'})({
      required: true,
    }),
  }

  static override examples = [
    {command: 'eval "$(zael autocomplete bash)"', description: 'For the current bash session'},
    {
      command: 'zael autocomplete fish > ~/.config/fish/completions/zael.fish',
      description: 'For fish, permanently',
    },
  ]

  async run(): Promise<AutocompleteResult> {
    const {shell} = this.args
    const script = COMPLETION_SCRIPTS[shell]
    for (const line of script.trimEnd().split('\n')) this.logExactly(line)
    return {shell, script}
  }
}

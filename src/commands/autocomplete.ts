import {option} from '@oclif/core/args'
import {BaseCommand} from '../lib/cli/base/base-command.js'
import {COMPLETION_SCRIPTS, SHELLS} from '../lib/cli/completion/scripts.js'

export default class Autocomplete extends BaseCommand<typeof Autocomplete> {
  static override summary = 'Print what teaches a shell to complete zael commands'

  static override description =
    'Completes commands, flags and their values, and the names of namespaces, entities and resources of the chosen stack. ' +
    'The first line of what is printed says where to put it.'

  static override args = {
    shell: option({options: SHELLS, ignoreStdin: true, description: 'Shell to be taught.'})({required: true}),
  }

  static override examples = [
    {command: 'eval "$(zael autocomplete bash)"', description: 'For this session of bash'},
    {
      command: 'zael autocomplete fish > ~/.config/fish/completions/zael.fish',
      description: 'For fish, for good',
    },
  ]

  async run(): Promise<object> {
    const {shell} = this.args
    const script = COMPLETION_SCRIPTS[shell]
    this.log(script.trimEnd())
    return {shell, script}
  }
}

import {string} from '@oclif/core/args'
import {BaseCommand} from '../lib/cli/base/base-command.js'
import {unknownHelpSubject} from '../lib/cli/help/command-not-found.js'
import ZaelHelp, {describeSubject} from '../lib/cli/help/help.js'
import type {HelpResult} from '../lib/cli/help/results.js'

export default class HelpCommand extends BaseCommand<typeof HelpCommand> {
  static override summary = 'Show help for a command or a help topic'

  static override args = {
    subject: string({description: 'Command or help topic.', multiple: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael help', description: 'List commands and help topics'},
    {command: 'zael help version', description: 'Help for a command'},
    {command: 'zael help exit-codes', description: 'Read a help topic'},
  ]

  async run(): Promise<HelpResult> {
    const words = this.args.subject ?? []
    const help = new ZaelHelp(this.config)
    const subject = help.find(words)
    if (!subject) throw unknownHelpSubject(this.config, words)
    if (!this.jsonEnabled()) await help.show(subject)
    return describeSubject(this.config, subject)
  }
}

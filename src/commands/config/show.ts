import {BaseCommand} from '../../lib/cli/base/base-command.js'
import {settingsFileLines, settingsJson, settingsListing} from '../../lib/cli/base/settings-presenter.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {listFlags} from '../../lib/cli/output/listing.js'
import type {ConfigShowResult} from '../../lib/cli/output/results.js'

export default class ConfigShow extends BaseCommand<typeof ConfigShow> {
  static override baseFlags = StackCommand.baseFlags

  static override summary = 'Show the current settings and where each comes from'

  static override description =
    'Precedence: flags, ZAEL_ variables, zael.config.json in this folder or the nearest parent folder, config.json in ' +
    'your config folder, AWS SDK variables, defaults. A settings file is a JSON object of strings: stack, namespace, ' +
    'region, profile, endpointUrl and output. In zael.config.json, endpointUrl must be on this machine. Settings never ' +
    'contain credentials.'

  static override flags = {...listFlags}

  static override examples = [
    {command: 'zael config show', description: 'Settings of the next command'},
    {command: 'ZAEL_STACK=local zael config show', description: 'With a variable set'},
    {command: 'zael config show --json', description: 'As JSON'},
  ]

  async run(): Promise<ConfigShowResult> {
    const {settings, files} = await this.loadSettings()
    await this.list(settingsListing(settings))
    this.log()
    this.print(settingsFileLines(files, process.cwd(), `${this.config.configDir}/config.json`))
    return settingsJson(settings, files)
  }
}

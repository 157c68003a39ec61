import {BaseCommand} from '../../lib/cli/base/base-command.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {settingsFileLines, settingsListing, settingsResult} from '../../lib/cli/data/config-presenter.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class ConfigShow extends BaseCommand<typeof ConfigShow> {
  static override baseFlags = StackCommand.baseFlags

  static override summary = 'Show the settings in force and where each comes from'

  static override description =
    'A flag wins over a ZAEL_ variable, that over zael.config.json in this folder or the nearest one above, that over ' +
    'config.json in your own config folder, and that over what AWS SDKs read and the default. A file is one JSON object ' +
    'of texts with the keys stack, namespace, region, profile, endpointUrl and output. Credentials are never settings.'

  static override flags = {...listFlags}

  static override examples = [
    {command: 'zael config show', description: 'What the next command would work with'},
    {command: 'ZAEL_STACK=local zael config show', description: 'The same, with a variable set'},
    {command: 'zael config show --json', description: 'For programs'},
  ]

  async run(): Promise<object> {
    const {settings, files} = await this.loadSettings()
    this.list(settingsListing(settings))
    this.log()
    this.log(settingsFileLines(files, process.cwd(), `${this.config.configDir}/config.json`).join('\n'))
    return settingsResult(settings, files)
  }
}

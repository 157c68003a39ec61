import {BaseCommand} from '../lib/cli/base/base-command.js'

export default class VersionCommand extends BaseCommand<typeof VersionCommand> {
  static override summary = 'Show the version of zael and of Node'

  static override examples = [
    {command: 'zael version', description: 'The same as --version and -V'},
    {command: 'zael version --json', description: 'For programs'},
  ]

  async run(): Promise<object> {
    this.log(this.config.userAgent)
    const {version, platform, arch} = this.config
    return {version, platform, arch, node: process.version}
  }
}

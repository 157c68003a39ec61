import {BaseCommand} from '../lib/cli/base/base-command.js'
import type {VersionResult} from '../lib/cli/help/results.js'

export default class VersionCommand extends BaseCommand<typeof VersionCommand> {
  static override summary = 'Show the versions of zael and Node'

  static override examples = [
    {command: 'zael version', description: 'Same as --version and -V'},
    {command: 'zael version --json', description: 'As JSON'},
  ]

  async run(): Promise<VersionResult> {
    this.log(this.config.userAgent)
    const {version, platform, arch} = this.config
    return {version, platform, arch, node: process.version}
  }
}

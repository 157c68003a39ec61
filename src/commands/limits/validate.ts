import {BaseCommand} from '../../lib/cli/base/base-command.js'
import {manifestFlags, readManifest} from '../../lib/cli/limits/manifest-file.js'
import {manifestCounts, validLine} from '../../lib/cli/limits/manifest-presenter.js'
import type {LimitsValidateResult} from '../../lib/cli/limits/results.js'

export default class LimitsValidate extends BaseCommand<typeof LimitsValidate> {
  static override summary = 'Check a manifest without connecting to a table'

  static override description = 'Reports all problems at once, with line and column.'

  static override flags = manifestFlags

  static override examples = [
    {command: 'zael limits validate -f limits.yaml', description: 'Before a commit'},
    {command: 'zael limits export | zael limits validate -f -', description: 'From standard input'},
  ]

  async run(): Promise<LimitsValidateResult> {
    const {file} = this.flags
    const manifest = await readManifest(file)
    this.log(validLine(file, manifest))
    return {file, ...manifestCounts(manifest)}
  }
}

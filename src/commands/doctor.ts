import {BaseCommand} from '../lib/cli/base/base-command.js'
import {wholeStackFlags} from '../lib/cli/base/stack-command.js'
import {EXIT} from '../lib/cli/output/exit.js'
import type {DoctorResult} from '../lib/cli/stack/results.js'

export default class Doctor extends BaseCommand<typeof Doctor> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Diagnose this machine, the AWS account and a stack'

  static override description =
    'Checks Node, the clock, credentials, region, permissions and the connection to DynamoDB. For an existing stack, also ' +
    'checks its stream, filters, dead letters and versions. Reports each check as ok, warn or fail, with a suggested fix. ' +
    'Changes nothing. Exits with 6 if a check fails.'

  static override examples = [
    {command: 'zael doctor', description: 'Check this machine and the account'},
    {command: 'zael doctor --stack prod', description: 'Also check a stack and the permissions it needs'},
    {command: 'zael doctor --stack local --json', description: 'Check the local stack, as JSON'},
  ]

  async run(): Promise<DoctorResult> {
    const {settings} = await this.loadSettings()
    const [{checkLines, examine}, {flagsOfCommands, withTypedFlags}] = await Promise.all([
      import('../lib/cli/stack/doctor.js'),
      import('../lib/cli/base/hints.js'),
    ])
    const isNamed = settings.stack.source !== 'default'
    const found = await examine({flags: this.flags, isNamed, version: this.config.version})
    const flagsOf = flagsOfCommands(this.config)
    const checks = found.map(check =>
      check.fix === null ? check : {...check, fix: withTypedFlags(check.fix, settings, flagsOf)},
    )
    this.print(checkLines(checks))
    const fit = !checks.some(({state}) => state === 'fail')
    if (!fit) process.exitCode = EXIT.negative
    return {fit, checks}
  }
}

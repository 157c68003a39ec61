import {BaseCommand} from '../lib/cli/base/base-command.js'
import {wholeStackFlags} from '../lib/cli/base/stack-command.js'
import {checkLines} from '../lib/cli/stack/doctor-presenter.js'
import {EXIT} from '../lib/core/errors.js'

export default class Doctor extends BaseCommand<typeof Doctor> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Find out what keeps zael from working'

  static override description =
    'Looks at Node, the clock, credentials, region, the way to DynamoDB, permissions, and, where there is a stack, at its ' +
    'stream, filters, dead letters and versions. Every line is ok, warn or fail and says what to do. Changes nothing. ' +
    'The exit code is 0 when nothing failed and 6 otherwise.'

  static override examples = [
    {command: 'zael doctor', description: 'This machine and the account'},
    {command: 'zael doctor --stack prod', description: 'The stack as well, with the permissions that it takes'},
    {command: 'zael doctor --stack local --json', description: 'The local stack, for programs'},
  ]

  async run(): Promise<object> {
    const {settings} = await this.loadSettings()
    const {examine} = await import('../lib/cli/stack/doctor.js')
    const isNamed = settings.stack.source !== 'default'
    const checks = await examine({flags: this.flags, isNamed, version: this.config.version})
    this.log(checkLines(checks).join('\n'))
    const fit = !checks.some(({state}) => state === 'fail')
    if (!fit) process.exitCode = EXIT.negative
    return {fit, checks}
  }
}

import type {StackContext} from '../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../lib/cli/base/stack-command.js'
import {healthJson, statusHealthLines} from '../lib/cli/stack/status-presenter.js'
import {EXIT} from '../lib/core/errors.js'

export default class Status extends StackCommand<typeof Status> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Show how a stack is doing'

  static override description =
    'Looks at the stack, its table, the aggregator and what carries the stream to it, lag, dead letters, alarms and ' +
    'versions, and changes nothing. What cannot be read is said and does not keep the rest from being shown. The exit ' +
    'code is 0 when all is well, or as far as you may see; 6 when something is not, or did not answer; 3 when there is ' +
    'no such stack.'

  static override examples = [
    {command: 'zael status --stack prod', description: 'Everything about a stack, and the verdict in the last line'},
    {command: 'zael status --stack local', description: 'The stack of `zael local up`'},
    {command: 'zael status --stack prod --json', description: 'For programs'},
  ]

  protected async work({stack, table, awsServices, endpoint}: StackContext): Promise<object> {
    const [{gatherHealth}, {passesCheck}, {supervisorOf, withSupervisor}] = await Promise.all([
      import('../lib/infra/health/health.js'),
      import('../lib/infra/health/findings.js'),
      import('../lib/cli/base/local-health.js'),
    ])
    using aws = await awsServices()
    const local = aws ? null : await supervisorOf({stack, endpoint})
    const health = withSupervisor(await gatherHealth({table, aws, ourVersion: this.config.version}), local)
    this.log(statusHealthLines(health, local).join('\n'))
    if (!passesCheck(health)) process.exitCode = EXIT.negative
    return healthJson(health, local)
  }
}

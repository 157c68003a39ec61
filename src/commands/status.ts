import {boolean} from '@oclif/core/flags'
import {TableCommand} from '../lib/cli/base/stack-command.js'
import {EXIT} from '../lib/cli/output/exit.js'
import type {StatusResult} from '../lib/cli/stack/results.js'
import {healthJson, statusHealthLines} from '../lib/cli/stack/status-presenter.js'
import {changedError, ZaelError} from '../lib/core/errors.js'

const NO_ANSWER = new Set(['aws.unavailable', 'dynamo.unavailable'])

export default class Status extends TableCommand<typeof Status> {
  static override summary = 'Show the health of a stack'

  static override description =
    'Checks the table, the aggregator, its stream mapping and lag, dead letters, alarms and versions. Names parts that you ' +
    'have no permission to read. Changes nothing. Exits with 6 if a part is degraded, has drifted (--drift) or did not ' +
    'respond, and with 3 if the stack does not exist.'

  static override flags = {
    drift: boolean({
      description: 'Also detect drift with CloudFormation. Takes up to three minutes.',
    }),
  }

  static override examples = [
    {command: 'zael status --stack prod', description: 'Health of all parts of a stack'},
    {command: 'zael status --stack local', description: 'The local stack'},
    {command: 'zael status --stack prod --json', description: 'As JSON'},
    {
      command: 'zael status --stack prod --drift',
      description: 'Also show changes made outside CloudFormation',
    },
  ]

  /** An unreachable stack is unhealthy (exit code 6), not an error. */
  override async run(): Promise<object> {
    return super.run().catch(error => {
      if (!(error instanceof ZaelError) || !NO_ANSWER.has(error.code)) throw error
      throw changedError(error, {kind: 'negative', cause: error})
    })
  }

  protected async work(): Promise<StatusResult> {
    const {stack, table, awsServices, endpoint} = this.stack
    const [{gatherHealth}, {passesCheck}, {supervisorOf, withSupervisor}, {sleepMs}] = await Promise.all([
      import('../lib/infra/health/health.js'),
      import('../lib/infra/health/parts.js'),
      import('../lib/cli/base/local-health.js'),
      import('../lib/dynamo/retry.js'),
    ])
    using aws = await awsServices()
    const local = aws ? null : await supervisorOf({stack, endpoint})
    const {drift = false} = this.flags
    if (drift && !aws) this.warn('--drift has no effect on a local engine, which has no CloudFormation.')
    const sources = {table, aws, ourVersion: this.config.version, drift: drift ? {sleep: sleepMs} : undefined}
    const found = withSupervisor(await gatherHealth(sources), local)
    const [findings, unknown] = [this.withTypedFixes(found.findings), this.withTypedFixes(found.unknown)]
    const health = {...found, findings, unknown}
    this.print(statusHealthLines(health, local))
    if (!passesCheck(health)) process.exitCode = EXIT.negative
    return healthJson(health, local)
  }
}

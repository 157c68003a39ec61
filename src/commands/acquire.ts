import {string} from '@oclif/core/args'
import {boolean, option, string as stringFlag} from '@oclif/core/flags'
import {acquireJson, acquireLines, retryText, type TriedRequest, whyCommand} from '../lib/cli/acquire/presenter.js'
import type {AcquireResult} from '../lib/cli/acquire/results.js'
import {inMoney, readableUnits, tryRequest, withDefaultWait} from '../lib/cli/acquire/run.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import {EXIT} from '../lib/cli/output/exit.js'
import {nextLines} from '../lib/cli/output/text-table.js'

export default class Acquire extends StackCommand<typeof Acquire> {
  static override summary = 'Consume tokens for one request'

  static override description =
    'Acquires tokens like a service that uses the library, and does not return them. Exit code 0 means admitted, 6 ' +
    'means refused.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
    amounts: string({
      description: "Amount per limit, such as rpm=1 or 'usd=$0.05'.",
      required: true,
      multiple: true,
      ignoreStdin: true,
    }),
  }

  static override flags = {
    'dry-run': boolean({description: 'Show the decision; consume nothing.', exclusive: ['wait']}),
    wait: stringFlag({
      description: 'Wait up to this long for admission; 60s without a value.',
      helpValue: 'DURATION',
    }),
    'on-unavailable': option({
      options: ['allow', 'block'] as const,
      description: 'Admit or refuse the request while the table is unavailable. Default: the configured policy.',
    })(),
  }

  static override examples = [
    {command: 'zael acquire user-1 gpt-4 rpm=1 tpm=500', description: 'Consume one request and 500 tokens'},
    {command: "zael acquire user-1 gpt-4 'usd=$0.05'", description: 'Charge an amount of money'},
    {command: 'zael acquire user-1 gpt-4 rpm=1 --dry-run', description: 'Check without consuming'},
    {
      command: 'zael acquire user-1 gpt-4 rpm=1 --wait 30s && ./job',
      description: 'Start a job once admitted',
    },
  ]

  protected override async init(): Promise<void> {
    this.argv = withDefaultWait(this.argv)
    await super.init()
  }

  protected async work(): Promise<AcquireResult> {
    const {entity, resource, amounts} = this.args
    const {'dry-run': dryRun = false, wait, 'on-unavailable': onUnavailable, namespace} = this.flags
    const [{parseAmounts, tokensIn, tokensOf}, {parseDuration}] = await Promise.all([
      import('../lib/core/limits/amount-text.js'),
      import('../lib/core/text/duration.js'),
    ])
    const asked = parseAmounts(amounts)
    const waitMs = wait === undefined ? 0 : parseDuration(wait)
    const units = await readableUnits(this.stack)
    const consume = units ? tokensIn(asked, units) : tokensOf(asked)
    const request = {
      entity,
      resource,
      consume,
      waitMs,
      onWait: (ms: number) => this.logToStderr(retryText(ms)),
      ...(onUnavailable === undefined ? {} : {onUnavailable}),
    }
    const attempt = await tryRequest(this.stack, namespace, request, {dryRun}).catch(error => {
      throw inMoney(error, units)
    })
    return this.#report({entity, resource, consume, units, dryRun, attempt})
  }

  async #report(tried: TriedRequest): Promise<AcquireResult> {
    this.print(await acquireLines(tried, this.lineWidth))
    if (!tried.attempt.admitted) {
      process.exitCode = EXIT.negative
      const command = whyCommand(tried) + typedFlags(this.settings)
      for (const line of nextLines([[command, 'show the refusing limit and possible fixes']])) this.logToStderr(line)
    }
    return acquireJson(tried)
  }
}

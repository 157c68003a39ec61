import {string} from '@oclif/core/args'
import {boolean, option, string as stringFlag} from '@oclif/core/flags'
import {acquireJson, acquireLines, retryText, type TriedRequest, whyCommand} from '../lib/cli/acquire/presenter.js'
import type {AcquireResult} from '../lib/cli/acquire/results.js'
import {
  checkCommand,
  checkWait,
  readableUnits,
  tryRequest,
  withDefaultWait,
  withReadableAmounts,
} from '../lib/cli/acquire/run.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand} from '../lib/cli/base/stack-command.js'
import {EXIT} from '../lib/cli/output/exit.js'
import {nextLines} from '../lib/cli/output/text-table.js'
import type {Lease} from '../lib/limiter/lease.js'
import type {AcquireRequest} from '../lib/limiter/request/options.js'

/** Printed after a refusal for lack of slots. */
const SLOTS_OF_THE_DEAD =
  'If a process has died, its slots come back within 45 seconds while a request waits: add --wait 60s'

export default class Acquire extends StackCommand<typeof Acquire> {
  static override summary = 'Consume tokens for one request'

  static override description =
    'Acquires tokens as a service does with the library, and does not return them. Exit code 0 means admitted, 6 ' +
    'means refused. With a command after --, holds a slot of each in-flight limit while the command runs, passes ' +
    'signals on, and exits with its exit code. Amounts are then optional, and a refused command does not run.'

  static override args = {
    entity: string({description: 'Entity id.', required: true, ignoreStdin: true}),
    resource: string({description: 'Resource name.', required: true, ignoreStdin: true}),
    amounts: string({
      description: "Amount per limit, such as rpm=1 or 'usd=$0.05'.",
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
      command: 'zael acquire ci deploys --wait 10m -- ./deploy.sh prod',
      description: 'Hold a slot while a command runs: a semaphore for shells and CI',
    },
  ]

  /** The words after `--`. */
  #command: readonly string[] | undefined

  protected override async init(): Promise<void> {
    const end = this.argv.indexOf('--')
    if (end >= 0) this.#command = this.argv.slice(end + 1)
    const words = end >= 0 ? this.argv.slice(0, end) : this.argv
    this.argv = withDefaultWait(words)
    await super.init()
    checkWait(words, this.args.amounts)
    checkCommand(this.#command, this.args.amounts, this.flags['dry-run'])
  }

  protected async work(): Promise<AcquireResult> {
    const {entity, resource, amounts = []} = this.args
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
      onWait: (ms: number) => this.#sayWait(retryText(ms)),
      ...(onUnavailable === undefined ? {} : {onUnavailable}),
    }
    const hold = this.#command && (await this.#holder(this.#command, request))
    const attempt = await tryRequest(this.stack, namespace, request, {dryRun, hold}).catch(error => {
      throw withReadableAmounts(error, units)
    })
    // The output is the command's.
    if (this.isStream) return acquireJson({entity, resource, consume, dryRun, attempt})
    return this.#report({entity, resource, consume, units, dryRun, attempt})
  }

  async #holder(command: readonly string[], {entity, resource, consume}: AcquireRequest) {
    const {runHolding, hasInFlight} = await import('../lib/cli/acquire/hold.js')
    if (Object.keys(consume).length === 0 && !(await hasInFlight(this.stack, entity, resource))) {
      this.warn(`No in-flight limit applies to ${entity} for ${resource}: any number of these commands may run at once`)
    }
    return async (lease: Lease) => {
      this.isStream = true
      process.exitCode = await runHolding(lease, command, text => this.warn(text))
    }
  }

  #lastWait = ''

  /** A free slot is tried for often. */
  #sayWait(text: string): void {
    if (text !== this.#lastWait) this.logToStderr(text)
    this.#lastWait = text
  }

  async #report(tried: TriedRequest): Promise<AcquireResult> {
    this.print(await acquireLines(tried, this.lineWidth))
    if (!tried.attempt.admitted) {
      process.exitCode = EXIT.negative
      const command = whyCommand(tried) + typedFlags(this.settings)
      for (const line of nextLines([[command, 'show the refusing limit and possible fixes']])) this.logToStderr(line)
      // A command that does not wait ends before it can know which processes are dead.
      const lacksSlots = tried.attempt.statuses.some(({exceeded, inFlight}) => exceeded && inFlight)
      if (lacksSlots && this.flags.wait === undefined) this.logToStderr(SLOTS_OF_THE_DEAD)
    }
    return acquireJson(tried)
  }
}

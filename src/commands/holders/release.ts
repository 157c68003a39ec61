import {string} from '@oclif/core/args'
import {boolean, integer} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {forceQuestion, releasedJson, releasedLines, waitText} from '../../lib/cli/holders/presenter.js'
import type {HoldersReleaseResult} from '../../lib/cli/holders/results.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import {nothingChanged} from '../../lib/cli/output/interrupt.js'
import {withProgress} from '../../lib/cli/output/progress.js'

export default class HoldersRelease extends StackCommand<typeof HoldersRelease> {
  static override summary = 'Return the slots and reserved tokens of a dead process'

  static override description =
    'Compares beats for 35 seconds. If the process is dead, returns its slots and reserved quota tokens in all ' +
    'buckets of the namespace, and writes an audit event. If it is alive, changes nothing and exits with 6. ' +
    'After a refusal, other processes return them automatically: this command is for buckets that no process uses. ' +
    '--force skips the comparison. A living process then loses its slots while its work continues, and charges its ' +
    'reserved tokens again when it settles them.'

  static override args = {
    holder: string({description: 'Holder id, from `zael holders list`.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    force: boolean({description: 'Return them even if the process is alive, after confirmation.'}),
    yes: boolean({char: 'y', description: 'Skip confirmation.', dependsOn: ['force']}),
    'rate-limit': integer({
      description: 'Maximum read units per second.',
      helpValue: 'RCU',
      min: 1,
      default: 500,
    }),
  }

  static override examples = [
    {command: 'zael holders release 3kTq0vBn2aE', description: 'A process that was killed'},
    {command: 'zael holders release 3kTq0vBn2aE --force', description: 'A process that hangs but still beats'},
  ]

  protected async work(): Promise<HoldersReleaseResult> {
    const {holder: id} = this.args
    const {force: isForced = false, yes = false, 'rate-limit': rateLimit} = this.flags
    const {pacedTable} = await import('../../lib/cli/holders/run.js')
    const {releaseHolder} = await import('../../lib/insight/holders/release.js')
    const namespace = await this.stack.namespace()
    if (isForced) await confirm(forceQuestion(id), {yes})
    const table = pacedTable(this.stack.table, namespace.id, rateLimit)
    const released = await withProgress(
      (line, signal) => {
        const onWait = (ms: number) => {
          if (ms === 0) this.logToStderr('Comparing beats for 35 seconds; Ctrl-C stops without a change.')
          line.draw(() => waitText(ms))
        }
        return releaseHolder(table, namespace.audit, {id, isForced, signal, onWait})
      },
      () => nothingChanged('holders.interrupted'),
    )
    this.print(releasedLines(id, released))
    return releasedJson(id, released)
  }
}

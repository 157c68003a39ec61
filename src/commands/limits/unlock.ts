import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {unlockedLines, unlockQuestion} from '../../lib/cli/limits/manifest-presenter.js'
import type {LimitsUnlockResult} from '../../lib/cli/limits/results.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'

export default class LimitsUnlock extends StackCommand<typeof LimitsUnlock> {
  static override summary = 'Remove the lock of a crashed `zael limits apply`'

  static override description =
    'While `zael limits apply` runs, it locks the namespace for other runs. The lock of a crashed run expires after ' +
    '30 seconds. This command removes it now, and updates live buckets that the run left with old limits. Asks ' +
    'first. A run that is still active stops before its next change.'

  static override flags = yesFlag

  static override examples = [
    {command: 'zael limits unlock', description: 'Show the holder, and ask'},
    {command: 'zael limits unlock --yes', description: 'In a script'},
  ]

  protected async work(): Promise<LimitsUnlockResult> {
    const {yes = false, namespace} = this.flags
    const repository = await this.stack.namespace()
    const lock = await repository.applyLock.get()
    if (lock) {
      await confirm(unlockQuestion(namespace, lock, this.stack.table.clock()), {yes})
      await repository.applyLock.remove(lock)
    }
    // A killed run may have stored limits without updating their buckets. Later plans have no changes for these.
    const buckets = lock && (await repository.syncAll())
    this.print(unlockedLines(namespace, lock, buckets))
    const {owner: holder = '', since = '', leaseUntilMs = 0} = lock ?? {}
    const removed = lock ? {holder, since, expires: new Date(leaseUntilMs).toISOString()} : null
    return {namespace, lock: removed, buckets: buckets ?? null}
  }
}

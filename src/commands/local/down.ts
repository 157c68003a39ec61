import {boolean} from '@oclif/core/flags'
import {BaseCommand} from '../../lib/cli/base/base-command.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import {downLines} from '../../lib/cli/stack/local-presenter.js'
import type {LocalDownResult} from '../../lib/cli/stack/results.js'

export default class LocalDown extends BaseCommand<typeof LocalDown> {
  static override summary = 'Stop the local stack'

  static override description =
    'The aggregator finishes its current batch, then the engine stops. The data is kept unless you add --purge.'

  static override flags = {
    purge: boolean({description: 'Also delete the data and the log.'}),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael local down', description: 'Stop and keep the data'},
    {command: 'zael local down --purge --yes', description: 'Stop and delete everything'},
  ]

  async run(): Promise<LocalDownResult> {
    const {purge, yes} = this.flags
    const {bringDown, dataToPurge} = await import('../../lib/local/down.js')
    const {findStateDir} = await import('../../lib/local/state-dir/state.js')
    const stateDir = findStateDir()
    const doomed = purge ? await dataToPurge(stateDir) : undefined
    if (doomed !== undefined) await confirm(`This deletes all data in ${doomed}`, {yes})
    const result = await bringDown(stateDir, {purge})
    this.print(downLines(result, stateDir.folder))
    const {stopped, purged = null} = result
    return {stopped: stopped !== undefined, endpoint: stopped?.endpoint ?? null, purged}
  }
}

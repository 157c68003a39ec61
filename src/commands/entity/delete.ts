import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityDeletionLines, entityDeletionPhrase} from '../../lib/cli/entity/presenter.js'
import type {EntityDeleteResult} from '../../lib/cli/entity/results.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import {kindCounts} from '../../lib/cli/output/kind-counts.js'

export default class EntityDelete extends StackCommand<typeof EntityDelete> {
  static override summary = 'Delete an entity with its limits, usage and buckets'

  static override description =
    'Keeps audit events. Entities with children cannot be deleted. After an interruption, run the command again.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    yes: boolean({char: 'y', description: 'Skip confirmation.'}),
    'dry-run': boolean({description: 'Count the items to delete; delete nothing.'}),
  }

  static override examples = [
    {command: 'zael entity delete user-7 --dry-run', description: 'Preview'},
    {command: 'zael entity delete user-7', description: 'Ask first'},
    {command: 'zael entity delete user-7 --yes', description: 'In a script'},
  ]

  protected async work(): Promise<EntityDeleteResult> {
    const {id} = this.args
    const {entities} = await this.stack.namespace()
    const planned = kindCounts(await entities.countRemoval(id))
    const dryRun = this.flags['dry-run'] === true // oclif omits flags that are not typed
    if (!dryRun) await confirm(entityDeletionPhrase(id, planned), this.flags)
    const counts = dryRun ? planned : kindCounts((await entities.delete(id)).byKind)
    this.print(entityDeletionLines(id, counts, dryRun))
    return {id, dryRun, counts}
  }
}

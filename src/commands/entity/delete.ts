import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityDeletionLines, entityDeletionPhrase} from '../../lib/cli/entity/presenter.js'
import type {EntityDeleteResult} from '../../lib/cli/entity/results.js'
import {scopeJson} from '../../lib/cli/limits/json.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import {kindCounts} from '../../lib/cli/output/kind-counts.js'

export default class EntityDelete extends StackCommand<typeof EntityDelete> {
  static override summary = 'Delete an entity with its limits, usage and buckets'

  static override description =
    'Later requests with this id use the limits of the resource and charge no parent. The id of a disabled entity ' +
    'stays blocked; --block disables the entity first. Also deletes usage: export it before. Audit events are ' +
    'kept. Entities with children cannot be deleted. After an interruption, run the command again.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    block: boolean({description: 'Refuse all later requests with this id.'}),
    yes: boolean({char: 'y', description: 'Skip confirmation.'}),
    'dry-run': boolean({description: 'Count the items to delete; delete nothing.'}),
  }

  static override examples = [
    {command: 'zael entity delete user-7 --dry-run', description: 'Preview'},
    {command: 'zael entity delete user-7', description: 'Ask first'},
    {command: 'zael entity delete key-9 --block --yes', description: 'Delete a leaked key; keep it blocked'},
  ]

  protected async work(): Promise<EntityDeleteResult> {
    const {id} = this.args
    const {block = false, 'dry-run': dryRun = false} = this.flags // oclif omits flags that are not typed
    const namespace = await this.stack.namespace()
    const {entities, configs} = namespace
    const planned = kindCounts(await entities.countRemoval(id))
    const {entityScope} = await import('../../lib/cli/limits/switch.js')
    const everything = entityScope(id)
    const own = (await configs.ofEntity(id)).filter(({access}) => access === 'disabled').map(({scope}) => scope)
    const {parent} = (await entities.get(id)) ?? {}
    const effect = {id, parent, block, blocks: block ? [everything] : own, where: typedFlags(this.settings)}
    if (!dryRun) await confirm(entityDeletionPhrase(planned, effect), this.flags)
    if (block && !dryRun) await namespace.setAccess(everything, 'disabled')
    const {byKind, blocks} = dryRun ? {byKind: undefined, blocks: effect.blocks} : await entities.delete(id)
    const counts = byKind === undefined ? planned : kindCounts(byKind)
    this.print(entityDeletionLines(counts, {...effect, blocks}, dryRun))
    return {id, dryRun, counts, blocked: blocks.map(scopeJson)}
  }
}

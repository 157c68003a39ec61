import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {
  type DeletionEffect,
  deletedUsage,
  entityDeletionLines,
  entityDeletionPhrase,
  type KeptBlock,
  keptBlockJson,
} from '../../lib/cli/entity/presenter.js'
import type {EntityDeleteResult} from '../../lib/cli/entity/results.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import {kindCounts} from '../../lib/cli/output/kind-counts.js'
import type {ConfigScope} from '../../lib/schema/config-record.js'

const resourceOf = (scope: ConfigScope) => (scope.level === 'entity' ? scope.resource : undefined)

export default class EntityDelete extends StackCommand<typeof EntityDelete> {
  static override summary = 'Delete an entity with its limits, usage and buckets'

  static override description =
    'Later requests with this id use the limits of the resource and charge no parent. The id of a disabled entity ' +
    'stays blocked until the block expires. --block blocks the id permanently. Also deletes usage, so reports and exports of ' +
    'any month lack it: export it first. Audit events are kept. Entities with children cannot be deleted. After an interruption, run the command again.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    block: boolean({description: 'Refuse all later requests with this id.'}),
    ...yesFlag,
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
    const stored = (await configs.ofEntity(id)).filter(({access}) => access === 'disabled')
    const own = stored.map(({scope, accessUntilMs: untilMs}): KeptBlock => ({scope, untilMs}))
    const {parent} = (await entities.get(id)) ?? {}
    const usage = deletedUsage(await namespace.usage.summary({entity: id, window: 'monthly'}), await configs.units())
    const effect: DeletionEffect = {
      id,
      parent,
      block,
      blocks: block ? [{scope: everything}] : own,
      where: typedFlags(this.settings),
      usage,
    }
    if (!dryRun) await confirm(entityDeletionPhrase(planned, effect), this.flags)
    const before = stored.find(({scope}) => resourceOf(scope) === everything.resource)
    // A block without an end stays as it is, with its reason and time.
    if (block && !dryRun && (!before || before.accessUntilMs !== undefined))
      await namespace.setAccess(everything, 'disabled', {reason: before?.accessReason})
    const removed = dryRun ? undefined : await entities.delete(id)
    const counts = removed === undefined ? planned : kindCounts(removed.byKind)
    const known = (scope: ConfigScope) => effect.blocks.find(block => resourceOf(block.scope) === resourceOf(scope))
    const blocks = removed === undefined ? effect.blocks : removed.blocks.map(scope => known(scope) ?? {scope})
    this.print(entityDeletionLines(counts, {...effect, blocks}, dryRun))
    return {id, dryRun, counts, usage, blocked: blocks.map(keptBlockJson)}
  }
}

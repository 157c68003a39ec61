import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {
  changesOf,
  entityJson,
  entityUpdatedLines,
  lineageOf,
  parseMetadata,
  unchargedWarning,
} from '../../lib/cli/entity/presenter.js'
import type {EntityUpdateResult} from '../../lib/cli/entity/results.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import {InvalidInput} from '../../lib/core/errors.js'

const multiple = {multiple: true, multipleNonGreedy: true} as const

const MOST_NAMED = 3

export default class EntityUpdate extends StackCommand<typeof EntityUpdate> {
  static override summary = 'Update an entity'

  static override description =
    "Fields you don't give, including other metadata, do not change. Live buckets follow a new parent or cascade " +
    'setting before the command returns; buckets created in the last seconds follow within 60 seconds. Earlier charges ' +
    'stay with the old parent, and open leases settle there. A cascade policy (`zael entity cascade`, `zael resource ' +
    'cascade`) overrides --cascade. Asks first if requests would start to charge a parent whose quota is used up.'

  static override args = {
    id: stringArg({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    name: string({description: 'New display name.', helpValue: 'TEXT'}),
    parent: string({description: 'Entity id of the new parent.', helpValue: 'ID', exclusive: ['no-parent']}),
    'no-parent': boolean({description: 'Remove the parent.'}),
    cascade: boolean({description: 'Also charge every request to the parent.', allowNo: true}),
    metadata: string({char: 'm', description: 'Set this metadata. Repeatable.', helpValue: 'KEY=VALUE', ...multiple}),
    'unset-metadata': string({description: 'Remove this metadata key. Repeatable.', helpValue: 'KEY', ...multiple}),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael entity update user-7 --parent team-2', description: 'Move it to another team'},
    {command: 'zael entity update user-7 --no-cascade', description: 'Charge only its own limits'},
    {command: 'zael entity update user-7 -m tier=silver --unset-metadata owner', description: 'Change metadata'},
  ]

  protected async work(): Promise<EntityUpdateResult> {
    const {name, parent, 'no-parent': orphan, cascade, metadata = [], 'unset-metadata': unset = []} = this.flags
    const {yes = false} = this.flags
    const isEmpty = [name, parent, cascade].every(value => value === undefined) && !orphan
    if (isEmpty && metadata.length + unset.length === 0) {
      throw new InvalidInput('entity.no-change', 'No change was given.', {
        hint: 'Add --name, --parent, --no-parent, --cascade, --no-cascade, --metadata or --unset-metadata.',
      })
    }
    const setMetadata = parseMetadata(metadata)
    const namespace = await this.stack.namespace()
    const {entities} = namespace
    const change = {name, parent: orphan ? null : parent, cascade, setMetadata, unsetMetadata: unset}
    const [{moveTexts}, {formatSome}] = await Promise.all([
      import('../../lib/insight/preview/move.js'),
      import('../../lib/core/text/text.js'),
    ])
    const moves = await moveTexts(namespace, [{entity: this.args.id, ...change}], this.stack.table.clock())
    const question = moves.length === 0 ? undefined : formatSome(moves, MOST_NAMED)
    if (question !== undefined) await confirm(question, {yes})
    const {before, after, buckets} = await entities.change(this.args.id, change)
    const isLinked = after.parent !== undefined && (parent !== undefined || cascade === true)
    const family = isLinked ? await lineageOf(namespace, after) : undefined
    const lines = entityUpdatedLines(before, after, buckets, family)
    this.print([...lines, ...(yes && question ? ['', `${question}.`] : [])])
    if (family) {
      const {parents, levels} = family
      const children = await entities.children(after.entity)
      const name = this.settings.namespace.value ?? 'default'
      const warnings = [
        unchargedWarning(after, family, name),
        ...children.map(child => unchargedWarning(child, {parents: [after, ...parents], levels}, name)),
      ]
      for (const warning of warnings.filter(each => each !== undefined).slice(0, MOST_NAMED)) this.warn(warning)
    }
    return {...entityJson(after), changed: changesOf(before, after), buckets, confirmation: question ?? null}
  }
}

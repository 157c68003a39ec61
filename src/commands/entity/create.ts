import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {
  entityCreatedLines,
  entityJson,
  lineageOf,
  parseMetadata,
  unchargedWarning,
} from '../../lib/cli/entity/presenter.js'
import type {EntityCreateResult} from '../../lib/cli/entity/results.js'
import {restoreQuestion} from '../../lib/cli/limits/switch-command.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import type {PolicyScope} from '../../lib/repository/limits/change-options.js'

export default class EntityCreate extends StackCommand<typeof EntityCreate> {
  static override summary = 'Create an entity, such as a user, an API key or a team'

  static override description =
    'With --parent and --cascade, every admitted request also charges the parent, so children share its limits. The ' +
    "parent's parent is charged only after `zael namespace set NAME --levels all`. The parent must exist. Asks before " +
    'it lifts the block of a deleted entity with this id.'

  static override args = {
    id: stringArg({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    name: string({description: 'Display name. Default: the id.', helpValue: 'TEXT'}),
    parent: string({description: 'Entity id of the parent.', helpValue: 'ID'}),
    cascade: boolean({description: 'Also charge every request to the parent.', dependsOn: ['parent']}),
    metadata: string({
      char: 'm',
      description: 'Store this metadata. Repeatable.',
      helpValue: 'KEY=VALUE',
      multiple: true,
      multipleNonGreedy: true,
    }),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael entity create team-1 --name "Search team"', description: 'A team'},
    {
      command: 'zael entity create user-7 --parent team-1 --cascade',
      description: 'A member whose requests also charge the team',
    },
    {command: 'zael entity create key-9 -m tier=gold -m owner=ann', description: 'With metadata'},
  ]

  protected async work(): Promise<EntityCreateResult> {
    const {name, parent, cascade, metadata = []} = this.flags
    const entity = {id: this.args.id, name, parent, cascade, metadata: parseMetadata(metadata)}
    const namespace = await this.stack.namespace()
    const {entities, configs} = namespace
    const blocks = (await configs.ofEntity(entity.id)).filter(({deletedAt}) => deletedAt !== undefined)
    const [block] = blocks
    if (block) await confirm(restoreQuestion(entity.id, block), this.flags)
    const record = await entities.create(entity)
    for (const {scope} of blocks) await namespace.setAccess(scope as PolicyScope, undefined, {from: 'disabled'})
    const family = cascade ? await lineageOf(namespace, record) : undefined
    this.print([...entityCreatedLines(record, family), ...(block ? ['Its block is lifted.'] : [])])
    const warning = family && unchargedWarning(record, family, this.settings.namespace.value ?? 'default')
    if (warning !== undefined) this.warn(warning)
    return entityJson(record)
  }
}

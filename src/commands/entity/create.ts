import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityCreatedLines, entityJson, parseMetadata} from '../../lib/cli/entity/presenter.js'
import type {EntityCreateResult} from '../../lib/cli/entity/results.js'

export default class EntityCreate extends StackCommand<typeof EntityCreate> {
  static override summary = 'Create an entity, such as a user, an API key or a team'

  static override description =
    'With --parent and --cascade, every admitted request also charges the parent, so children share its limits. The ' +
    'parent must exist.'

  static override args = {
    id: stringArg({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    name: string({description: 'Display name. Default: the id.'}),
    parent: string({description: 'Entity id of the parent.', helpValue: 'ID'}),
    cascade: boolean({description: 'Also charge every request to the parent.', dependsOn: ['parent']}),
    metadata: string({
      char: 'm',
      description: 'Store this metadata. Repeatable.',
      helpValue: 'KEY=VALUE',
      multiple: true,
      multipleNonGreedy: true,
    }),
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
    const record = await (await this.stack.namespace()).entities.create(entity)
    this.print(entityCreatedLines(record))
    return entityJson(record)
  }
}

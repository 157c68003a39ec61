import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityCreatedLines, entityJson} from '../../lib/cli/data/entity-presenter.js'
import {parseMetadata} from '../../lib/cli/flags/metadata.js'

export default class EntityCreate extends StackCommand<typeof EntityCreate> {
  static override summary = 'Create an entity: a user, a key, a team, whoever is limited'

  static override description =
    'An entity with a parent and --cascade shares its budget: every admitted request is charged to the parent too. ' +
    'The parent must exist.'

  static override args = {
    id: stringArg({description: 'Id of the entity.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    name: string({description: 'Name for people; the id unless given.'}),
    parent: string({description: 'Id of the entity above it.', helpValue: 'ID'}),
    cascade: boolean({description: 'Charge every request to the parent too.', dependsOn: ['parent']}),
    metadata: string({
      char: 'm',
      description: 'Something to remember about it; can be given several times.',
      helpValue: 'KEY=VALUE',
      multiple: true,
      multipleNonGreedy: true,
    }),
  }

  static override examples = [
    {command: 'zael entity create team-1 --name "Search team"', description: 'A team'},
    {command: 'zael entity create user-7 --parent team-1 --cascade', description: 'A member who spends its budget'},
    {command: 'zael entity create key-9 -m tier=gold -m owner=ann', description: 'With notes'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {name, parent, cascade, metadata = []} = this.flags
    const entity = {id: this.args.id, name, parent, cascade, metadata: parseMetadata(metadata)}
    const record = await (await stack.namespace()).entities.create(entity)
    this.log(entityCreatedLines(record).join('\n'))
    return entityJson(record)
  }
}

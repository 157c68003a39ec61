import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {changesOf, entityJson, entityUpdatedLines} from '../../lib/cli/data/entity-presenter.js'
import {parseMetadata} from '../../lib/cli/flags/metadata.js'
import {InvalidInput} from '../../lib/core/errors.js'

const multiple = {multiple: true, multipleNonGreedy: true} as const

export default class EntityUpdate extends StackCommand<typeof EntityUpdate> {
  static override summary = 'Change an entity'

  static override description =
    'What is not named stays as it is, other metadata included. Live buckets follow a change of parent or cascade at once.'

  static override args = {
    id: stringArg({description: 'Id of the entity.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    name: string({description: 'Another name for people.'}),
    parent: string({description: 'Another entity above it.', helpValue: 'ID', exclusive: ['no-parent']}),
    'no-parent': boolean({description: 'No entity above it any more.'}),
    cascade: boolean({description: 'Whether to charge every request to the parent too.', allowNo: true}),
    metadata: string({char: 'm', description: 'Something to remember about it.', helpValue: 'KEY=VALUE', ...multiple}),
    'unset-metadata': string({description: 'Something to forget.', helpValue: 'KEY', ...multiple}),
  }

  static override examples = [
    {command: 'zael entity update user-7 --parent team-2', description: 'Move it to another team'},
    {command: 'zael entity update user-7 --no-cascade', description: 'Let it spend its own budget only'},
    {command: 'zael entity update user-7 -m tier=silver --unset-metadata owner', description: 'Change its notes'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {name, parent, 'no-parent': orphan, cascade, metadata = [], 'unset-metadata': unset = []} = this.flags
    const isEmpty = [name, parent, cascade].every(value => value === undefined) && !orphan
    if (isEmpty && metadata.length + unset.length === 0) {
      throw new InvalidInput('entity.no-change', 'there is nothing to change', {
        hint: 'Add --name, --parent, --no-parent, --cascade, --no-cascade, --metadata or --unset-metadata.',
      })
    }
    const setMetadata = parseMetadata(metadata)
    const {entities} = await stack.namespace()
    const change = {name, parent: orphan ? null : parent, cascade, setMetadata, unsetMetadata: unset}
    const {before, after} = await entities.change(this.args.id, change)
    this.log(entityUpdatedLines(before, after).join('\n'))
    return {...entityJson(after), changed: changesOf(before, after)}
  }
}

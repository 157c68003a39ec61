import {string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityJson, entityListing} from '../../lib/cli/data/entity-presenter.js'
import {parseMetadata} from '../../lib/cli/flags/metadata.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'
import type {EntityListResult} from '../../lib/cli/results/entity.js'

export default class EntityList extends StackCommand<typeof EntityList> {
  static override summary = 'List the entities of a namespace'

  static override flags = {
    filter: string({
      description: 'Only entities whose id or name contains this text; ignores case.',
      helpValue: 'TEXT',
    }),
    parent: string({description: 'Only children of this entity.', helpValue: 'ID'}),
    metadata: string({
      char: 'm',
      description: 'Only entities with this metadata; can be repeated.',
      helpValue: 'KEY=VALUE',
      multiple: true,
      multipleNonGreedy: true,
    }),
    ...pageFlags,
    ...listFlags,
  }

  static override examples = [
    {command: 'zael entity list', description: 'The first 50 by id'},
    {command: 'zael entity list --filter ann --all', description: 'Search the whole namespace'},
    {command: 'zael entity list --parent team-1 -m plan=gold', description: 'Children with some metadata'},
    {command: 'zael entity list --all --output csv --columns id,parent', description: 'As CSV'},
  ]

  protected async work(stack: StackContext): Promise<EntityListResult> {
    const {filter: text, parent, metadata, limit, all, cursor} = this.flags
    const filter = {text, parent, metadata: metadata && parseMetadata(metadata)}
    const isFiltered = Object.values(filter).some(each => each !== undefined)
    const {entities} = await stack.namespace()
    if (parent !== undefined) await entities.need(parent)
    const page = {limit: all ? undefined : limit, cursor}
    const {records, next} = await (isFiltered ? entities.search(filter, page) : entities.list(page))
    await this.list(entityListing(records, isFiltered ? 'No entity matches' : 'There are no entities'))
    this.suggestNextPage(next)
    return {entities: records.map(entityJson), next: next ?? null}
  }
}

import {string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityJson, entityListing} from '../../lib/cli/data/entity-presenter.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'
import type {EntityListResult} from '../../lib/cli/results/entity.js'

export default class EntityList extends StackCommand<typeof EntityList> {
  static override summary = 'List the entities of a namespace'

  static override flags = {
    filter: string({
      description: 'Only entities whose id or name contains this text; ignores case.',
      helpValue: 'TEXT',
    }),
    ...pageFlags,
    ...listFlags,
  }

  static override examples = [
    {command: 'zael entity list', description: 'The first 50 by id'},
    {command: 'zael entity list --filter ann --all', description: 'Search the whole namespace'},
    {command: 'zael entity list --all --output csv --columns id,parent', description: 'As CSV'},
  ]

  protected async work(stack: StackContext): Promise<EntityListResult> {
    const {filter, limit, all, cursor} = this.flags
    const {entities} = await stack.namespace()
    const page = {limit: all ? undefined : limit, cursor}
    const {records, next} = await (filter ? entities.search(filter, page) : entities.list(page))
    await this.list(entityListing(records, filter ? `No entity contains "${filter}"` : 'There are no entities'))
    this.suggestNextPage(next)
    return {entities: records.map(entityJson), next: next ?? null}
  }
}

import {string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityJson, entityListing, parseMetadata, SearchReport} from '../../lib/cli/entity/presenter.js'
import type {EntityListResult} from '../../lib/cli/entity/results.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'
import type {Streamed} from '../../lib/cli/output/results.js'
import type {EntityRecord} from '../../lib/schema/entity-record.js'

export default class EntityList extends StackCommand<typeof EntityList> {
  static override summary = 'List the entities of a namespace'

  static override flags = {
    prefix: string({
      description: 'List only ids that start with this text (case-sensitive); reads nothing else.',
      helpValue: 'TEXT',
    }),
    filter: string({
      description: 'List only ids or names that contain this text (ignores case).',
      helpValue: 'TEXT',
    }),
    parent: string({description: 'List only children of this entity.', helpValue: 'ID'}),
    metadata: string({
      char: 'm',
      description: 'List only entities with this metadata. Repeatable.',
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
    {
      command: 'zael entity list --prefix team-1: --all --output jsonl',
      description: 'Ids with a prefix, as JSON Lines',
    },
    {command: 'zael entity list --parent team-1 -m plan=gold', description: 'Children with given metadata'},
  ]

  protected async work(): Promise<EntityListResult | Streamed> {
    const {prefix, filter: text, parent, metadata, limit, all, cursor} = this.flags
    const filter = {prefix, text, parent, metadata: metadata && parseMetadata(metadata)}
    const isFiltered = Object.values(filter).some(each => each !== undefined)
    const empty = isFiltered ? 'No entity matches' : 'No entities'
    const {entities} = await this.stack.namespace()
    if (parent !== undefined) await entities.need(parent)
    const report = new SearchReport()
    if (all) {
      const items = report.cleared(entities.walk(filter, report.options))
      const listing = (rows: readonly EntityRecord[]) => entityListing(rows, empty)
      const after = () => ({deleted: report.deletedJson()})
      await this.listAll({field: 'entities', items, json: entityJson, listing, after})
      for (const line of report.lines(filter)) this.logToStderr(line)
      return {}
    }
    const {records, next} = await entities.search(filter, {limit, cursor}, report.options)
    for (const line of report.lines(filter)) this.logToStderr(line)
    await this.list(entityListing(records, empty))
    this.suggestNextPage(next)
    return {entities: records.map(entityJson), deleted: report.deletedJson(), next: next ?? null}
  }
}

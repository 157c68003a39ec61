import {string} from '@oclif/core/args'
import {lineWidth} from '../../lib/cli/base/base-command.js'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'

export default class EntityShow extends StackCommand<typeof EntityShow> {
  static override summary = 'Show an entity, the limits that apply to it and what is left of them'

  static override description =
    'Limits are those in force for each resource, with the place they were set for. What is available is the level of the ' +
    'live bucket at this moment, over all shards; a dash means that the entity has not used the resource lately.'

  static override args = {
    id: string({description: 'Id of the entity.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael entity show user-7', description: 'Parents, limits and levels'},
    {command: 'zael entity show user-7 --json', description: 'For programs'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const [{entityOverview}, {overviewJson, entityOverviewLines}, namespace] = await Promise.all([
      import('../../lib/inspect/entity-overview.js'),
      import('../../lib/cli/data/entity-overview-presenter.js'),
      stack.namespace(),
    ])
    const overview = await entityOverview(namespace, this.args.id, stack.table.clock())
    this.log(entityOverviewLines(overview, lineWidth()).join('\n'))
    return overviewJson(overview)
  }
}

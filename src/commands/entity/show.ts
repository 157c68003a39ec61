import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {EntityShowResult} from '../../lib/cli/entity/results.js'

export default class EntityShow extends StackCommand<typeof EntityShow> {
  static override summary = 'Show an entity, its limits and their current levels'

  static override description =
    'For each resource, shows the limits that apply and their scope. AVAILABLE is the current balance over all ' +
    'shards. A dash means no recent use, or an in-flight limit. "disabled" means that every request is refused. ' +
    'CAPACITY includes temporary limits.'

  static override args = {
    id: string({description: 'Entity id.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael entity show user-7', description: 'Parents, limits and levels'},
    {command: 'zael entity show user-7 --json', description: 'As JSON'},
  ]

  protected async work(): Promise<EntityShowResult> {
    const [{entityOverview}, {overviewJson, entityOverviewLines}, namespace] = await Promise.all([
      import('../../lib/insight/lookup/entity-overview.js'),
      import('../../lib/cli/entity/presenter.js'),
      this.stack.namespace(),
    ])
    const overview = await entityOverview(namespace, this.args.id, this.stack.table.clock())
    this.print(await entityOverviewLines(overview, this.lineWidth))
    return overviewJson(overview)
  }
}

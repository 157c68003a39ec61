import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {entityJson, entityListing} from '../../lib/cli/entity/presenter.js'
import type {EntityChildrenResult} from '../../lib/cli/entity/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class EntityChildren extends StackCommand<typeof EntityChildren> {
  static override summary = 'List the direct children of an entity'

  static override args = {
    id: string({description: 'Entity id of the parent.', required: true, ignoreStdin: true}),
  }

  static override flags = listFlags

  static override examples = [
    {command: 'zael entity children team-1', description: 'The members of a team'},
    {
      command: 'zael entity children team-1 --columns id,cascade',
      description: 'Show whether they also charge the team',
    },
  ]

  protected async work(): Promise<EntityChildrenResult> {
    const {entities} = await this.stack.namespace()
    const children = await entities.children(this.args.id)
    if (children.length === 0) await entities.need(this.args.id)
    await this.list(entityListing(children, `Entity "${this.args.id}" has no children`))
    return {entities: children.map(entityJson), next: null}
  }
}

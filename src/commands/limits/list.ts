import {string} from '@oclif/core/flags'
import {checkedNames, scopeFlags} from '../../lib/cli/base/scope.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {configJson} from '../../lib/cli/limits/json.js'
import {configListing} from '../../lib/cli/limits/presenter.js'
import type {LimitsListResult} from '../../lib/cli/limits/results.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'
import {keepHeapSmallest} from '../../lib/cli/output/long-list.js'
import type {Streamed} from '../../lib/cli/output/results.js'

export default class LimitsList extends StackCommand<typeof LimitsList> {
  static override summary = 'List the configured limits by scope'

  static override description =
    'Lists all limits of the namespace: system, resources, then entities. --resource selects a resource and the ' +
    'entities with their own limits for it. --entity selects all limits of an entity.'

  static override flags = {
    system: scopeFlags.system,
    resource: string({
      char: 'r',
      description: 'List this resource and entities with their own limits for it.',
      helpValue: 'NAME',
      helpGroup: 'SCOPE',
    }),
    entity: string({char: 'e', description: 'List all limits of this entity.', helpValue: 'ID', helpGroup: 'SCOPE'}),
    ...listFlags,
    ...pageFlags,
  }

  static override examples = [
    {command: 'zael limits list', description: 'The first 50 scopes'},
    {command: 'zael limits list --resource gpt-4 --all', description: 'All limits for a resource'},
    {command: 'zael limits list --output csv', description: 'As CSV'},
  ]

  protected async work(): Promise<LimitsListResult | Streamed> {
    // The record of a manifest with many entities is read as a whole.
    keepHeapSmallest()
    const {all, limit, cursor} = this.flags
    const selection = checkedNames(this.flags)
    const {configPage, walkConfigs} = await import('../../lib/repository/limits/limit-pages.js')
    const {configs} = await this.stack.namespace()
    if (all) {
      const items = walkConfigs(configs, selection)
      return this.listAll({field: 'configs', items, json: configJson, listing: configListing})
    }
    const {records, next} = await configPage(configs, selection, {limit, cursor})
    await this.list(configListing(records))
    this.suggestNextPage(next)
    return {configs: records.map(configJson), next: next ?? null}
  }
}

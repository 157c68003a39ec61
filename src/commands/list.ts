import {boolean} from '@oclif/core/flags'
import {BaseCommand} from '../lib/cli/base/base-command.js'
import {wholeStackFlags, withKnownProfiles} from '../lib/cli/base/stack-command.js'
import {listFlags} from '../lib/cli/output/listing.js'
import {findStacks, refusedLines, stackListing} from '../lib/cli/stack/list.js'
import type {ListResult} from '../lib/cli/stack/results.js'

const {stack: _, ...accountFlags} = wholeStackFlags

export default class List extends BaseCommand<typeof List> {
  static override baseFlags = accountFlags

  static override summary = 'List the stacks of an account, also those of the Python tool'

  static override description =
    'Stacks are found by their tags. With --all-regions every region is searched; regions that refuse access are named and ' +
    'skipped. On a local engine, which has no stacks, the tables are listed.'

  static override flags = {
    ...listFlags,
    'all-regions': boolean({char: 'a', description: 'List all regions, not only the current one.'}),
  }

  static override examples = [
    {command: 'zael list', description: 'Stacks in the current region'},
    {command: 'zael list --all-regions --output csv', description: 'All regions, as CSV'},
    {command: 'zael list --profile ops --region eu-west-1 --json', description: 'Another account and region, as JSON'},
  ]

  async run(): Promise<ListResult> {
    const {settings} = await this.loadSettings()
    const {region, profile, 'endpoint-url': endpointUrl} = this.flags
    const allRegions = this.flags['all-regions']
    const found = findStacks({region, profile, endpointUrl}, {allRegions}).catch(async error => {
      throw await withKnownProfiles(error, settings.profile, process.env)
    })
    const {stacks, refused, notEnabled} = await found
    await this.list(stackListing(stacks, {allRegions}))
    for (const line of refusedLines(refused)) this.warn(line)
    return {stacks, refused, notEnabled, next: null}
  }
}

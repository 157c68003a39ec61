import {boolean} from '@oclif/core/flags'
import {BaseCommand} from '../lib/cli/base/base-command.js'
import {withEmptyRegion} from '../lib/cli/base/hints.js'
import {wholeStackFlags, withKnownProfiles} from '../lib/cli/base/stack-command.js'
import {listFlags} from '../lib/cli/output/listing.js'
import {findStacks, refusedLines, stackListing} from '../lib/cli/stack/list.js'
import type {ListResult} from '../lib/cli/stack/results.js'

const {stack: _, ...accountFlags} = wholeStackFlags

export default class List extends BaseCommand<typeof List> {
  static override baseFlags = accountFlags

  static override summary = 'List the stacks of an AWS account'

  static override description =
    'Finds stacks by their tags, including stacks of the Python tool. With --all-regions, skips and names regions ' +
    'that deny access. At a local endpoint, lists tables.'

  static override flags = {
    ...listFlags,
    'all-regions': boolean({char: 'a', description: 'Search all regions instead of the current one.'}),
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
      throw withEmptyRegion(await withKnownProfiles(error, settings.profile, process.env), settings.region)
    })
    const {stacks, refused, notEnabled} = await found
    await this.list(stackListing(stacks, {allRegions}))
    for (const line of refusedLines(refused)) this.warn(line)
    return {stacks, refused, notEnabled, next: null}
  }
}

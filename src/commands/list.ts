import {boolean} from '@oclif/core/flags'
import {BaseCommand} from '../lib/cli/base/base-command.js'
import {wholeStackFlags} from '../lib/cli/base/stack-command.js'
import {listFlags} from '../lib/cli/output/listing.js'
import {refusedLines, stackListing} from '../lib/cli/stack/list-presenter.js'

const {stack: _, ...accountFlags} = wholeStackFlags

export default class List extends BaseCommand<typeof List> {
  static override baseFlags = accountFlags

  static override summary = 'List the stacks of an account, also those of the Python tool'

  static override description =
    'Stacks are found by their tags. With --all-regions every region is asked; those that refuse are named and do not ' +
    'keep the others from being listed. On a local engine, which has no stacks, the tables are listed.'

  static override flags = {
    ...listFlags,
    'all-regions': boolean({char: 'a', description: 'Look into all regions, not only the one in force.'}),
  }

  static override examples = [
    {command: 'zael list', description: 'Stacks in the region in force'},
    {command: 'zael list --all-regions --output csv', description: 'All of them, for a spreadsheet'},
    {command: 'zael list --profile ops --region eu-west-1 --json', description: 'Another account, for programs'},
  ]

  async run(): Promise<object> {
    await this.loadSettings()
    const {findStacks} = await import('../lib/cli/stack/list.js')
    const {region, profile, 'endpoint-url': endpointUrl} = this.flags
    const allRegions = this.flags['all-regions']
    const {stacks, refused, notEnabled} = await findStacks({region, profile, endpointUrl}, {allRegions})
    this.list(stackListing(stacks, {allRegions}))
    for (const line of refusedLines(refused)) this.warn(line)
    return {stacks, refused, notEnabled, next: null}
  }
}

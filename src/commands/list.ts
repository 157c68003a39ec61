import {boolean} from '@oclif/core/flags'
import type {StackFlagValues} from '../lib/cli/base/context.js'
import {SettingsCommand} from '../lib/cli/base/settings-command.js'
import {listFlags} from '../lib/cli/output/listing.js'
import {refusedLines, stackListing} from '../lib/cli/stack/list-presenter.js'

const {namespace: _namespace, stack: _stack, ...regionFlags} = SettingsCommand.baseFlags

export default class List extends SettingsCommand<typeof List> {
  static override summary = 'List the stacks of an account, also those of the Python tool'

  static override description =
    'Stacks are found by their tags. With --all-regions every region is asked; those that refuse are named and do not ' +
    'keep the others from being listed. On a local engine, which has no stacks, the tables are listed.'

  // TypeScript lets no subclass have less than its parent; oclif knows only the flags that are really there.
  static override baseFlags = regionFlags as typeof SettingsCommand.baseFlags
  static override enableJsonFlag = true

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
    const {findStacks} = await import('../lib/cli/stack/list.js')
    const {region, profile, 'endpoint-url': endpointUrl} = this.flags as unknown as StackFlagValues
    const allRegions = this.flags['all-regions']
    const {stacks, refused, notEnabled} = await findStacks({region, profile, endpointUrl}, {allRegions})
    this.list(stackListing(stacks, {allRegions}))
    for (const line of refusedLines(refused)) this.warn(line)
    return {stacks, refused, notEnabled, next: null}
  }
}

import {boolean, integer} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {holderListing, holdersJson} from '../../lib/cli/holders/presenter.js'
import type {HoldersListResult} from '../../lib/cli/holders/results.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'

export default class HoldersList extends StackCommand<typeof HoldersList> {
  static override summary = 'List processes that hold slots or reserved tokens'

  static override description =
    'Lists the processes that held slots of in-flight limits or reserved quota tokens in the last day. A process ' +
    'writes a beat every 10 seconds while it holds any. Clocks differ, so the time of the last beat does not prove ' +
    'that a process is alive. --wait compares beats for 35 seconds; "no beat" then means that the process is dead ' +
    'or holds nothing. Writes nothing.'

  static override flags = {
    wait: boolean({description: 'Compare beats for 35 seconds, and show who is alive.'}),
    slots: boolean({
      description:
        'Show the slots and reserved tokens of each process; reads all buckets of the namespace, and the reservations of ' +
        'the listed processes.',
    }),
    'rate-limit': integer({
      description: 'Maximum read units per second.',
      helpValue: 'RCU',
      min: 1,
      default: 500,
    }),
    ...pageFlags,
    ...listFlags,
  }

  static override examples = [
    {command: 'zael holders list', description: 'The processes of the namespace'},
    {command: 'zael holders list --wait --slots', description: 'Who is alive, and who holds what'},
    {command: 'zael holders list --json', description: 'As JSON'},
  ]

  protected async work(): Promise<HoldersListResult> {
    const {wait = false, slots = false, limit, all, cursor, 'rate-limit': rateLimit} = this.flags
    const {listHolders, pacedTable} = await import('../../lib/cli/holders/run.js')
    const {id} = await this.stack.namespace()
    const table = pacedTable(this.stack.table, id, rateLimit)
    const {rows, next} = await listHolders(table, {limit: all ? undefined : limit, cursor, wait, slots})
    await this.list(holderListing(rows, table.clock()))
    this.suggestNextPage(next)
    return {holders: holdersJson(rows), next: next ?? null}
  }
}

import {boolean} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {orphanJson, orphanListing} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceOrphansResult} from '../../lib/cli/namespace/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class NamespaceOrphans extends StackCommand<typeof NamespaceOrphans> {
  static override baseFlags = wholeStackFlags

  static override summary = 'List deleted namespaces whose data still exists'

  static override description =
    'Includes namespaces whose purge was interrupted, and those that another client left half deleted. With --unregistered ' +
    'also namespaces that only records know: a client with an outdated or a fixed namespace id wrote them. Make sure that ' +
    'no client uses such an id before you purge it.'

  static override flags = {
    ...listFlags,
    unregistered: boolean({
      description: 'Also find records of namespaces that are not registered; reads the whole table.',
    }),
  }

  static override examples = [
    {command: 'zael namespace orphans', description: 'Namespaces that can be recovered or purged'},
    {command: 'zael namespace orphans --unregistered', description: 'Records of unknown namespaces too'},
    {command: 'zael namespace orphans --json', description: 'As JSON'},
  ]

  protected async work({repository}: StackContext): Promise<NamespaceOrphansResult> {
    const deleted = await repository.namespaces.orphans()
    const unregistered = this.flags.unregistered ? await repository.namespaces.unregistered() : []
    const namespaces = [...deleted, ...unregistered]
    await this.list(orphanListing(namespaces))
    return {namespaces: namespaces.map(orphanJson), next: null}
  }
}

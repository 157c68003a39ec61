import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {namespaceJson, orphanListing} from '../../lib/cli/data/namespace-presenter.js'
import {listFlags} from '../../lib/cli/output/listing.js'
import type {NamespaceOrphansResult} from '../../lib/cli/results/namespace.js'

export default class NamespaceOrphans extends StackCommand<typeof NamespaceOrphans> {
  static override baseFlags = wholeStackFlags

  static override summary = 'List deleted namespaces whose data still exists'

  static override description =
    'Includes namespaces whose purge was interrupted, and those that another client left half deleted.'

  static override flags = listFlags

  static override examples = [
    {command: 'zael namespace orphans', description: 'Namespaces that can be recovered or purged'},
    {command: 'zael namespace orphans --json', description: 'As JSON'},
  ]

  protected async work({repository}: StackContext): Promise<NamespaceOrphansResult> {
    const namespaces = await repository.namespaces.orphans()
    await this.list(orphanListing(namespaces))
    return {namespaces: namespaces.map(namespaceJson), next: null}
  }
}

import {boolean} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {orphanJson, orphanListing} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceOrphansResult} from '../../lib/cli/namespace/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class NamespaceOrphans extends TableCommand<typeof NamespaceOrphans> {
  static override summary = 'List deleted namespaces whose data still exists'

  static override description =
    'Includes interrupted purges and namespaces that another client partly deleted. --unregistered also finds records ' +
    'of unknown namespaces, written by clients with an outdated or hard-coded namespace id. Before you purge such an id, ' +
    'make sure that no client uses it.'

  static override flags = {
    ...listFlags,
    unregistered: boolean({
      description: 'Also find records of unregistered namespaces; reads the whole table.',
    }),
  }

  static override examples = [
    {command: 'zael namespace orphans', description: 'Namespaces that can be recovered or purged'},
    {command: 'zael namespace orphans --unregistered', description: 'Include unregistered namespaces'},
    {command: 'zael namespace orphans --json', description: 'As JSON'},
  ]

  protected async work(): Promise<NamespaceOrphansResult> {
    const {namespaces} = this.stack.repository
    const deleted = await namespaces.orphans()
    const unregistered = this.flags.unregistered ? await namespaces.unregistered() : []
    const found = [...deleted, ...unregistered]
    await this.list(orphanListing(found))
    return {namespaces: found.map(orphanJson), next: null}
  }
}

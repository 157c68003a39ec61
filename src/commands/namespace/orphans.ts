import {boolean} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {orphanJson, orphanListing} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceOrphansResult} from '../../lib/cli/namespace/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class NamespaceOrphans extends TableCommand<typeof NamespaceOrphans> {
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

  protected async work(): Promise<NamespaceOrphansResult> {
    const {namespaces} = this.stack.repository
    const deleted = await namespaces.orphans()
    const unregistered = this.flags.unregistered ? await namespaces.unregistered() : []
    const found = [...deleted, ...unregistered]
    await this.list(orphanListing(found))
    return {namespaces: found.map(orphanJson), next: null}
  }
}

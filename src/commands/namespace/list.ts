import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {namespaceJson, namespaceListing} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceListResult} from '../../lib/cli/namespace/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class NamespaceList extends TableCommand<typeof NamespaceList> {
  static override summary = 'List the namespaces of a stack'

  static override description = 'Omits deleted namespaces; see `zael namespace orphans`.'

  static override flags = listFlags

  static override examples = [
    {command: 'zael namespace list', description: 'All namespaces by name'},
    {command: 'zael namespace list --sort -created --output csv', description: 'Newest first, as CSV'},
  ]

  protected async work(): Promise<NamespaceListResult> {
    const namespaces = await this.stack.repository.namespaces.list()
    await this.list(namespaceListing(namespaces))
    return {namespaces: namespaces.map(namespaceJson), next: null}
  }
}

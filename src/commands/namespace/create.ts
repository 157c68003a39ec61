import {string} from '@oclif/core/args'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {createdLines, namespaceJson} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceCreateResult} from '../../lib/cli/namespace/results.js'

export default class NamespaceCreate extends TableCommand<typeof NamespaceCreate> {
  static override summary = 'Create namespaces'

  static override description =
    'A namespace isolates the entities, limits and usage of one tenant. Existing namespaces do not change.'

  static override args = {
    name: string({description: 'Namespace name.', required: true, multiple: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael namespace create acme', description: 'One namespace'},
    {command: 'zael namespace create acme globex initech', description: 'Several namespaces'},
  ]

  protected async work(): Promise<NamespaceCreateResult> {
    const registrations = await this.stack.repository.namespaces.registerMany([...new Set(this.args.name)])
    this.print(createdLines(registrations))
    return {namespaces: registrations.map(({namespace, created}) => ({...namespaceJson(namespace), created}))}
  }
}

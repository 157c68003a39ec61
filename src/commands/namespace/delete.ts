import {string} from '@oclif/core/args'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {namespaceDeletedLines, namespaceJson, namespaceTitle} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceDeleteResult} from '../../lib/cli/namespace/results.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'

export default class NamespaceDelete extends TableCommand<typeof NamespaceDelete> {
  static override summary = 'Delete a namespace and keep its data until a purge'

  static override description =
    'Frees the name. Within a minute, its clients get an error. The data is kept without a time limit: `zael ' +
    'namespace recover` restores the namespace, and only `zael namespace purge` permanently deletes its data. The ' +
    'namespace "default" cannot be deleted.'

  static override args = {
    namespace: string({description: 'Namespace name or id.', required: true, ignoreStdin: true}),
  }

  static override flags = yesFlag

  static override examples = [
    {command: 'zael namespace delete acme', description: 'Ask first'},
    {command: 'zael namespace delete acme --yes', description: 'In a script'},
  ]

  protected async work(): Promise<NamespaceDeleteResult> {
    const {namespaces} = this.stack.repository
    const found = await namespaces.deletable(this.args.namespace)
    await confirm(`This deletes ${namespaceTitle(found)}; its data is kept`, this.flags)
    const deleted = await namespaces.delete(found.id)
    this.print(namespaceDeletedLines(deleted))
    return namespaceJson(deleted)
  }
}

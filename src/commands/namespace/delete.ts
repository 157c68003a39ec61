import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {namespaceDeletedLines, namespaceJson, namespaceTitle} from '../../lib/cli/data/namespace-presenter.js'
import {confirm} from '../../lib/cli/output/confirm.js'

export default class NamespaceDelete extends StackCommand<typeof NamespaceDelete> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Delete a namespace; its data stays until it is purged'

  static override description =
    'The name is free again and clients that use it are refused. The data stays: `zael namespace recover` brings it back, ' +
    '`zael namespace purge` deletes it for good. The namespace "default" cannot be deleted.'

  static override args = {
    namespace: string({description: 'Name or id of a namespace.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    yes: boolean({char: 'y', description: 'Do not ask.'}),
  }

  static override examples = [
    {command: 'zael namespace delete acme', description: 'Asks first'},
    {command: 'zael namespace delete acme --yes', description: 'In a script'},
  ]

  protected async work({repository: {namespaces}}: StackContext): Promise<object> {
    const found = await namespaces.deletable(this.args.namespace)
    await confirm(`This deletes ${namespaceTitle(found)}; its data stays`, this.flags)
    const deleted = await namespaces.delete(found.id)
    this.log(namespaceDeletedLines(deleted).join('\n'))
    return namespaceJson(deleted)
  }
}

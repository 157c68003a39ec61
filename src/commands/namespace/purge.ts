import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {purgedLines, purgeJson, purgePlanLines, purgeWithProgress} from '../../lib/cli/namespace/presenter.js'
import type {NamespacePurgeResult} from '../../lib/cli/namespace/results.js'
import {kindCounts} from '../../lib/cli/output/kind-counts.js'

export default class NamespacePurge extends TableCommand<typeof NamespacePurge> {
  static override summary = 'Permanently delete all data of a deleted namespace'

  static override description =
    'The data cannot be recovered. Delete an active namespace first. Waits until clients have noticed the deletion, at ' +
    'most a minute. Reads the whole table once; each deleted item costs one write in the table and one in each index ' +
    'that contains it. After Ctrl-C, run the command again to continue. Confirm an unregistered namespace by its id.'

  static override args = {
    namespace: stringArg({description: 'Id or name of a deleted namespace.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    confirm: string({description: 'Confirm with the namespace name instead of a prompt.', helpValue: 'NAME'}),
    'dry-run': boolean({description: 'Count the items to delete; delete nothing.'}),
  }

  static override examples = [
    {command: 'zael namespace purge acme --dry-run', description: 'Count the items by kind'},
    {command: 'zael namespace purge acme', description: 'Ask for the name first'},
    {command: 'zael namespace purge w3Kx9QbT_1A --confirm acme', description: 'In a script'},
  ]

  protected async work(): Promise<NamespacePurgeResult> {
    const {namespaces} = this.stack.repository
    const namespace = await namespaces.purgeable(this.args.namespace)
    if (this.flags['dry-run']) {
      const byKind = await namespaces.countItems(namespace.id)
      this.print(purgePlanLines(namespace, kindCounts(byKind)))
      return purgeJson(namespace, true, byKind)
    }
    const {byKind} = await purgeWithProgress(namespaces, namespace, this.flags)
    this.print(purgedLines(namespace, kindCounts(byKind)))
    return purgeJson(namespace, false, byKind)
  }
}

import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {kindCounts} from '../../lib/cli/data/kind-counts.js'
import {purgedLines, purgeJson, purgePlanLines} from '../../lib/cli/data/namespace-presenter.js'
import {purgeWithProgress} from '../../lib/cli/data/namespace-purge.js'

export default class NamespacePurge extends StackCommand<typeof NamespacePurge> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Delete all data of a deleted namespace, for good'

  static override description =
    'Nothing brings the data back. An active namespace is refused: delete it first. ' +
    'Interrupted with Ctrl-C, a purge goes on when it is run again. Every item costs a write, in the table and in each index ' +
    'that has it, and the table is read once as a whole.'

  static override args = {
    namespace: stringArg({description: 'Id of a deleted namespace, or its name.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    confirm: string({description: 'Name of the namespace once more, instead of typing it.', helpValue: 'NAME'}),
    'dry-run': boolean({description: 'Count what would be deleted, and delete nothing.'}),
  }

  static override examples = [
    {command: 'zael namespace purge acme --dry-run', description: 'How many items of which kind'},
    {command: 'zael namespace purge acme', description: 'Asks for the name first'},
    {command: 'zael namespace purge w3Kx9QbT_1A --confirm acme', description: 'In a script'},
  ]

  protected async work({repository: {namespaces}}: StackContext): Promise<object> {
    const namespace = await namespaces.purgeable(this.args.namespace)
    if (this.flags['dry-run']) {
      const byKind = await namespaces.countItems(namespace.id)
      this.log(purgePlanLines(namespace, kindCounts(byKind)).join('\n'))
      return purgeJson(namespace, true, byKind)
    }
    const {byKind} = await purgeWithProgress(namespaces, namespace, this.flags)
    this.log(purgedLines(namespace, kindCounts(byKind)).join('\n'))
    return purgeJson(namespace, false, byKind)
  }
}

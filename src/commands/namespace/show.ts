import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {namespaceJson, showLines} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceShowResult} from '../../lib/cli/namespace/results.js'
import {kindCounts} from '../../lib/cli/output/kind-counts.js'

export default class NamespaceShow extends TableCommand<typeof NamespaceShow> {
  static override summary = 'Show a namespace'

  static override args = {
    namespace: string({description: 'Namespace name or id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    count: boolean({description: 'Count items by kind; reads the whole index of the namespace.'}),
  }

  static override examples = [
    {command: 'zael namespace show acme', description: 'Id, status and dates'},
    {command: 'zael namespace show acme --count', description: 'Also count its items'},
  ]

  protected async work(): Promise<NamespaceShowResult> {
    const {namespaces} = this.stack.repository
    const namespace = await namespaces.show(this.args.namespace)
    const counts = this.flags.count ? kindCounts(await namespaces.countIndexed(namespace.id)) : undefined
    this.print(showLines(namespace, counts))
    return {...namespaceJson(namespace), counts: counts ?? null}
  }
}

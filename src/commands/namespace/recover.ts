import {string} from '@oclif/core/args'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {namespaceJson, namespaceTitle} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceRecoverResult} from '../../lib/cli/namespace/results.js'

export default class NamespaceRecover extends TableCommand<typeof NamespaceRecover> {
  static override summary = 'Recover a deleted namespace'

  static override description =
    'Restores the name and the data. Fails after a purge has started, or while another namespace has the same name.'

  static override args = {
    namespace: string({description: 'Id or name of a deleted namespace.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael namespace recover acme', description: 'By its former name'},
    {command: 'zael namespace recover w3Kx9QbT_1A', description: 'By the id that `zael namespace orphans` shows'},
  ]

  protected async work(): Promise<NamespaceRecoverResult> {
    const {namespaces} = this.stack.repository
    const {id} = await namespaces.find(this.args.namespace)
    const recovered = await namespaces.recover(id)
    this.log(`Recovered ${namespaceTitle(recovered)}`)
    return namespaceJson(recovered)
  }
}

import {string} from '@oclif/core/args'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {namespaceJson, namespaceTitle} from '../../lib/cli/data/namespace-presenter.js'

export default class NamespaceRecover extends StackCommand<typeof NamespaceRecover> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Bring a deleted namespace back'

  static override description =
    'The namespace gets its name and its data back. That is impossible once a purge has begun, or while another namespace has the name.'

  static override args = {
    namespace: string({description: 'Id of a deleted namespace, or its name.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael namespace recover acme', description: 'By the name it had'},
    {command: 'zael namespace recover w3Kx9QbT_1A', description: 'By id, as `zael namespace orphans` tells it'},
  ]

  protected async work({repository: {namespaces}}: StackContext): Promise<object> {
    const {id} = await namespaces.find(this.args.namespace)
    const recovered = await namespaces.recover(id)
    this.log(`Recovered ${namespaceTitle(recovered)}`)
    return namespaceJson(recovered)
  }
}

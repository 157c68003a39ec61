import {string} from '@oclif/core/args'
import {option} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {namespaceJson, namespaceSetLines} from '../../lib/cli/namespace/presenter.js'
import type {NamespaceSetResult} from '../../lib/cli/namespace/results.js'

export default class NamespaceSet extends TableCommand<typeof NamespaceSet> {
  static override summary = 'Change the settings of a namespace'

  static override description =
    'With --levels all, a request charges its entity, the parent, its parent and so on, as long as each link ' +
    'cascades: at most eight levels, all or none. Running limiters follow within 30 seconds. Other clients, such as ' +
    'zae-limiter, charge only the direct parent.'

  static override args = {
    namespace: string({description: 'Namespace name or id.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    levels: option({
      description: 'Parents that requests charge: the direct one (the default of a namespace), or all.',
      options: ['parent', 'all'] as const,
      required: true,
    })(),
  }

  static override examples = [
    {command: 'zael namespace set default --levels all', description: 'Charge every level of a hierarchy'},
    {command: 'zael namespace set default --levels parent', description: 'Charge only the direct parent'},
  ]

  protected async work(): Promise<NamespaceSetResult> {
    const namespace = await this.stack.repository.namespaces.setLevels(this.args.namespace, this.flags.levels)
    this.print(namespaceSetLines(namespace))
    return namespaceJson(namespace)
  }
}

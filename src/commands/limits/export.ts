import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {writeManifest} from '../../lib/cli/limits/manifest-file.js'
import type {LimitsExportResult} from '../../lib/cli/results/manifest.js'

export default class LimitsExport extends StackCommand<typeof LimitsExport> {
  static override summary = 'Print the current limits as a manifest'

  static override description =
    'Prints limits and entities of the namespace as YAML, or as JSON with --json; `zael limits apply` reads both. Applying ' +
    'the manifest to the same namespace changes nothing.'

  static override examples = [
    {command: 'zael limits export > limits.yaml', description: 'Start to manage limits in a file'},
    {command: 'zael limits export --namespace acme --json', description: 'As JSON'},
  ]

  protected async work(stack: StackContext): Promise<LimitsExportResult> {
    const {namespace} = this.flags
    const {text, document} = await writeManifest(await stack.namespace(), namespace)
    this.print(text.trimEnd().split('\n'))
    return document
  }
}

import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {writeManifest} from '../../lib/cli/limits/manifest-file.js'

export default class LimitsExport extends StackCommand<typeof LimitsExport> {
  static override summary = 'Write what is configured as a manifest'

  static override description =
    'Limits and entities of the namespace, as YAML, or as JSON with --json: both can be applied. Applied to the same ' +
    'namespace the manifest changes nothing.'

  static override examples = [
    {command: 'zael limits export > limits.yaml', description: 'Begin to keep limits in a file'},
    {command: 'zael limits export --namespace acme --json', description: 'As JSON'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {namespace} = this.flags
    const {text, document} = await writeManifest(await stack.namespace(), namespace)
    this.log(text.trimEnd())
    return document
  }
}

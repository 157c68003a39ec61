import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {limitRows} from '../../lib/cli/limits/limit-rows.js'
import {writeManifest} from '../../lib/cli/limits/manifest-file.js'
import {listFlags} from '../../lib/cli/output/listing.js'
import type {LimitsExportResult} from '../../lib/cli/results/manifest.js'

export default class LimitsExport extends StackCommand<typeof LimitsExport> {
  static override summary = 'Print the current limits as a manifest'

  static override description =
    'Prints limits and entities of the namespace as YAML, or as JSON with --json; `zael limits apply` reads both. Applying ' +
    'the manifest to the same namespace changes nothing. With --output csv, prints the limits alone, one in each row.'

  static override flags = listFlags

  static override examples = [
    {command: 'zael limits export > limits.yaml', description: 'Start to manage limits in a file'},
    {command: 'zael limits export --namespace acme --json', description: 'As JSON'},
    {command: 'zael limits export --output csv > limits.csv', description: 'For a spreadsheet'},
  ]

  protected async work(stack: StackContext): Promise<LimitsExportResult> {
    const {namespace} = this.flags
    const repository = await stack.namespace()
    if (this.format === 'csv') {
      const {configPage} = await import('../../lib/repository/limits/pages.js')
      const {records} = await configPage(repository.configs, {}, {})
      await this.list(limitRows(records))
    }
    const {text, document} = await writeManifest(repository, namespace)
    this.print(text.trimEnd().split('\n'))
    return document
  }
}

import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {configJson} from '../../lib/cli/limits/json.js'
import {limitRows, printManifest} from '../../lib/cli/limits/manifest-file.js'
import type {LimitsExportResult} from '../../lib/cli/limits/results.js'
import {listFlags} from '../../lib/cli/output/listing.js'
import {isRowFormat} from '../../lib/cli/output/output-format.js'
import type {Streamed} from '../../lib/cli/output/results.js'

export default class LimitsExport extends StackCommand<typeof LimitsExport> {
  static override summary = 'Print the current limits as a manifest'

  static override description =
    'Prints limits and entities of the namespace as YAML, or as JSON with --json. `zael limits apply` reads both. ' +
    'Applying the manifest to the same namespace changes no limits, but makes their scopes managed. --output csv prints one limit per row, --output ' +
    'jsonl one scope per line.'

  static override flags = listFlags

  static override examples = [
    {command: 'zael limits export > limits.yaml', description: 'Manage limits in a file'},
    {command: 'zael limits export --namespace acme --json', description: 'As JSON'},
    {command: 'zael limits export --output csv > limits.csv', description: 'For a spreadsheet'},
  ]

  protected async work(): Promise<LimitsExportResult | Streamed> {
    const repository = await this.stack.namespace()
    if (isRowFormat(this.format)) {
      const {walkConfigs} = await import('../../lib/repository/limits/limit-pages.js')
      const items = walkConfigs(repository.configs, {})
      return this.listAll({field: 'configs', items, json: configJson, listing: limitRows})
    }
    await this.printAll(options => printManifest(repository, this.flags.namespace, options))
    return {}
  }
}

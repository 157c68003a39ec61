import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {manifestFlags, openManifest} from '../../lib/cli/limits/manifest-file.js'
import {diffJson, diffLines} from '../../lib/cli/limits/manifest-presenter.js'
import type {LimitsDiffResult} from '../../lib/cli/limits/results.js'
import {EXIT} from '../../lib/cli/output/exit.js'

export default class LimitsDiff extends StackCommand<typeof LimitsDiff> {
  static override summary = 'Show differences between the table and a manifest'

  static override description =
    'Compares the manifest with the current limits, no matter who changed them. Writes nothing. Exit code 0 means no ' +
    'drift, 6 means drift.'

  static override flags = manifestFlags

  static override examples = [
    {command: 'zael limits diff -f limits.yaml', description: 'Find manual changes'},
    {command: 'zael limits diff -f limits.yaml --json', description: 'In a nightly job'},
  ]

  protected async work(): Promise<LimitsDiffResult> {
    const {manifest, namespace} = await openManifest(this.flags.file, this.stack, this.settings)
    const {diffManifest} = await import('../../lib/manifest/plan.js')
    const drift = await diffManifest(namespace, manifest)
    this.print(diffLines(drift))
    if (drift.differences.length > 0) process.exitCode = EXIT.negative
    return diffJson(drift)
  }
}

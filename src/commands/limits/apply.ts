import {boolean} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {manifestFlags, openManifest} from '../../lib/cli/limits/manifest-file.js'
import {
  applyLines,
  applyResultJson,
  manifestPlanJson,
  manifestPlanLines,
} from '../../lib/cli/limits/manifest-presenter.js'
import type {LimitsApplyResult} from '../../lib/cli/limits/results.js'
import {applyWithProgress, confirmPlan, planWithPreview} from '../../lib/cli/limits/run.js'

export default class LimitsApply extends StackCommand<typeof LimitsApply> {
  static override summary = 'Apply a manifest to the table'

  static override description =
    'Sets every limit and entity in the manifest. Deletes only limits that an earlier apply created and the manifest ' +
    'no longer lists. Asks before updating or deleting anything, and before live buckets lose a limit they are charged ' +
    'for. After a failure or interruption, run the command again to apply the rest.'

  static override flags = {
    ...manifestFlags,
    'dry-run': boolean({description: 'Show the changes; write nothing.'}),
    yes: boolean({char: 'y', description: 'Skip confirmation.'}),
  }

  static override examples = [
    {command: 'zael limits apply -f limits.yaml --dry-run', description: 'Preview'},
    {command: 'zael limits apply -f limits.yaml --yes', description: 'In a pipeline'},
  ]

  protected async work(): Promise<LimitsApplyResult> {
    const {file, 'dry-run': dryRun = false, yes = false} = this.flags
    const {manifest, namespace} = await openManifest(file, this.stack, this.settings)
    const previewed = await planWithPreview(namespace, manifest, this.stack.table.clock())
    const {plan, preview} = previewed
    this.print(manifestPlanLines(plan, preview))
    if (dryRun) return {dryRun, ...manifestPlanJson(plan, preview), result: null}
    await confirmPlan(previewed, yes)
    const {result, exitCode} = await applyWithProgress(namespace, plan)
    this.print(applyLines(plan, result))
    process.exitCode = exitCode
    return {dryRun, ...manifestPlanJson(plan, preview), result: applyResultJson(result)}
  }
}

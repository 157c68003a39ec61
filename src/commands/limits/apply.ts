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
  static override summary = 'Apply a manifest: set and delete limits so that the table matches it'

  static override description =
    'Sets everything in the manifest. Deletes only limits that an earlier apply created and that are no longer in the ' +
    'manifest. Asks before it updates or deletes anything, and before live buckets lose a limit that they are charged ' +
    'for; in a pipeline give --yes. After a failure or interruption, run the command again to apply the rest.'

  static override flags = {
    ...manifestFlags,
    'dry-run': boolean({description: 'Show what would change; write nothing.'}),
    yes: boolean({char: 'y', description: 'Do not ask before updating and deleting.'}),
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

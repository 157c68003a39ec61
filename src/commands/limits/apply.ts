import {boolean} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {manifestFlags, openManifest} from '../../lib/cli/limits/manifest-file.js'
import {applyResultJson, manifestPlanJson} from '../../lib/cli/limits/manifest-json.js'
import {applyLines, manifestPlanLines} from '../../lib/cli/limits/manifest-presenter.js'
import {applyWithProgress} from '../../lib/cli/limits/run.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import type {LimitsApplyResult} from '../../lib/cli/results/manifest.js'
import {EXIT} from '../../lib/core/errors.js'

const EXIT_OF = {complete: EXIT.ok, failed: EXIT.failed, interrupted: EXIT.interrupted} as const

export default class LimitsApply extends StackCommand<typeof LimitsApply> {
  static override summary = 'Apply a manifest: set and delete limits so that the table matches it'

  static override description =
    'Sets everything in the manifest. Deletes only limits that an earlier apply created and that are no longer in the ' +
    'manifest, and asks before it does. After a failure or interruption, run the command again to apply the rest.'

  static override flags = {
    ...manifestFlags,
    'dry-run': boolean({description: 'Show what would change; write nothing.'}),
    yes: boolean({char: 'y', description: 'Do not ask before deleting limits.'}),
  }

  static override examples = [
    {command: 'zael limits apply -f limits.yaml --dry-run', description: 'Preview'},
    {command: 'zael limits apply -f limits.yaml --yes', description: 'In a pipeline'},
  ]

  protected async work(stack: StackContext): Promise<LimitsApplyResult> {
    const {file, 'dry-run': dryRun = false, yes = false} = this.flags
    const {manifest, namespace} = await openManifest(file, stack, this.settings)
    const {planManifest} = await import('../../lib/manifest/plan.js')
    const plan = await planManifest(namespace, manifest)
    this.print(manifestPlanLines(plan))
    const planned = {dryRun, ...manifestPlanJson(plan)}
    if (dryRun) return {...planned, result: null}
    const {delete: doomed} = plan.counts
    if (doomed > 0) await confirm(`This deletes the limits of ${doomed} ${doomed === 1 ? 'scope' : 'scopes'}`, {yes})
    const result = await applyWithProgress(namespace, plan)
    this.print(applyLines(result))
    process.exitCode = EXIT_OF[result.outcome]
    return {...planned, result: applyResultJson(result)}
  }
}

import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {oneFile, openManifest, optionalManifestFlags} from '../../lib/cli/limits/manifest-file.js'
import {
  applyLines,
  applyResultJson,
  manifestPlanJson,
  manifestPlanLines,
} from '../../lib/cli/limits/manifest-presenter.js'
import {requireReviewed} from '../../lib/cli/limits/plan-file.js'
import type {LimitsApplyResult} from '../../lib/cli/limits/results.js'
import {
  applyWithProgress,
  confirmPlan,
  type PreviewedPlan,
  planWithPreview,
  withApplyLock,
} from '../../lib/cli/limits/run.js'
import {yesFlag} from '../../lib/cli/output/confirm.js'

export default class LimitsApply extends StackCommand<typeof LimitsApply> {
  static override summary = 'Apply a manifest to the table'

  static override description =
    'Sets every scope and entity in the manifest, and removes other limits of these scopes. Deletes scopes that an ' +
    'earlier manifest listed and this one omits. Keeps all other scopes. Asks before updating or deleting anything. Exits with code 5 while another run ' +
    'applies a manifest to the namespace, or if values have changed since a plan file was written. After a ' +
    'failure, run the command again.'

  static override args = {
    file: stringArg({description: 'Plan file of `zael limits plan --out`, or a manifest.', ignoreStdin: true}),
  }

  static override flags = {
    ...optionalManifestFlags,
    'dry-run': boolean({description: 'Show the changes; write nothing.', exclusive: ['wait']}),
    wait: string({
      description: 'Wait up to this long while another run applies a manifest.',
      helpValue: 'DURATION',
    }),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael limits apply -f limits.yaml --dry-run', description: 'Preview'},
    {command: 'zael limits apply -f limits.yaml --yes --wait 60s', description: 'In a pipeline'},
    {command: 'zael limits apply plan.json', description: 'Apply exactly a reviewed plan'},
  ]

  protected async work(): Promise<LimitsApplyResult> {
    const {'dry-run': dryRun = false, yes = false, wait} = this.flags
    const file = oneFile(this.args.file, this.flags.file)
    const source = await openManifest(file, this.stack, this.settings, {mayBePlan: true})
    const {manifest, namespace, reviewed, where} = source
    const planned = async (): Promise<PreviewedPlan> => {
      const previewed = await planWithPreview(namespace, manifest, this.stack.table.clock())
      if (reviewed) requireReviewed(reviewed, previewed, namespace.id)
      this.print(manifestPlanLines(previewed.plan, previewed.preview, where))
      return previewed
    }
    if (dryRun) {
      const {plan, preview} = await planned()
      return {dryRun, ...manifestPlanJson(plan, preview), result: null}
    }
    return withApplyLock(namespace, wait, async lock => {
      const {plan, preview} = await planned()
      await confirmPlan({plan, preview}, yes)
      const {result, exitCode} = await applyWithProgress(namespace, plan, lock)
      this.print(applyLines(plan, result))
      process.exitCode = exitCode
      return {dryRun, ...manifestPlanJson(plan, preview), result: applyResultJson(result)}
    })
  }
}

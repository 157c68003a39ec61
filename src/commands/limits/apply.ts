import {boolean} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {manifestFlags, openManifest} from '../../lib/cli/limits/manifest-file.js'
import {applyResultJson, manifestPlanJson} from '../../lib/cli/limits/manifest-json.js'
import {applyLines, manifestPlanLines} from '../../lib/cli/limits/manifest-presenter.js'
import {applyWithProgress} from '../../lib/cli/limits/run.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/core/errors.js'

const EXIT_OF = {complete: EXIT.ok, failed: EXIT.failed, interrupted: EXIT.interrupted} as const

export default class LimitsApply extends StackCommand<typeof LimitsApply> {
  static override summary = 'Make the table as a manifest states it'

  static override description =
    'Sets what the file states and deletes only what an earlier apply made and the file no longer states; that is asked ' +
    'for first. Interrupted or failed on the way, a second run does the rest.'

  static override flags = {
    ...manifestFlags,
    'dry-run': boolean({description: 'Show what would change; write nothing.'}),
    yes: boolean({char: 'y', description: 'Do not ask before limits are deleted.'}),
  }

  static override examples = [
    {command: 'zael limits apply -f limits.yaml --dry-run', description: 'Look first'},
    {command: 'zael limits apply -f limits.yaml --yes', description: 'In a pipeline'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {file, 'dry-run': dryRun = false, yes = false} = this.flags
    const {manifest, namespace} = await openManifest(file, stack, this.settings)
    const {planManifest} = await import('../../lib/manifest/plan.js')
    const plan = await planManifest(namespace, manifest)
    this.log(manifestPlanLines(plan).join('\n'))
    const told = {dryRun, ...manifestPlanJson(plan)}
    if (dryRun) return {...told, result: null}
    const {delete: doomed} = plan.counts
    if (doomed > 0) await confirm(`This deletes the limits of ${doomed} ${doomed === 1 ? 'scope' : 'scopes'}`, {yes})
    const result = await applyWithProgress(namespace, plan)
    this.log(applyLines(result).join('\n'))
    process.exitCode = EXIT_OF[result.outcome]
    return {...told, result: applyResultJson(result)}
  }
}

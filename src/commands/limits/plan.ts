import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {impactFlags, impactJson, impactText, readImpact} from '../../lib/cli/limits/impact.js'
import {manifestFlags, openManifest} from '../../lib/cli/limits/manifest-file.js'
import {manifestPlanJson, manifestPlanLines} from '../../lib/cli/limits/manifest-presenter.js'
import type {LimitsPlanResult} from '../../lib/cli/limits/results.js'
import {planWithPreview} from '../../lib/cli/limits/run.js'

export default class LimitsPlan extends StackCommand<typeof LimitsPlan> {
  static override summary = 'Preview `zael limits apply`'

  static override description =
    'Compares a manifest with the current limits. Writes nothing. The manifest names the namespace.'

  static override flags = {...manifestFlags, ...impactFlags}

  static override examples = [
    {command: 'zael limits plan -f limits.yaml', description: 'Old and new values of every change'},
    {command: 'zael limits plan -f limits.yaml --impact', description: 'Include a replay of recorded usage'},
    {command: 'zael limits plan -f limits.yaml --json', description: 'As JSON'},
  ]

  protected async work(): Promise<LimitsPlanResult> {
    const {manifest, namespace} = await openManifest(this.flags.file, this.stack, this.settings)
    const {plan, preview} = await planWithPreview(namespace, manifest, this.stack.table.clock())
    this.print(manifestPlanLines(plan, preview))
    const changes = plan.changes.filter(change => change.kind === 'limits')
    const seen = this.flags.impact ? await readImpact(namespace, changes, this.stack.table.clock()) : undefined
    if (seen) this.print(await impactText(seen, this.lineWidth))
    return {...manifestPlanJson(plan, preview), impact: seen ? impactJson(seen.impact, seen.range) : null}
  }
}

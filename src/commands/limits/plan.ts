import {boolean, string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {impactFlags, impactJson, impactText, readImpact} from '../../lib/cli/limits/impact.js'
import {manifestFlags, openManifest} from '../../lib/cli/limits/manifest-file.js'
import {manifestPlanJson, manifestPlanLines, planWrittenLines} from '../../lib/cli/limits/manifest-presenter.js'
import {writePlanFile} from '../../lib/cli/limits/plan-file.js'
import type {LimitsPlanResult} from '../../lib/cli/limits/results.js'
import {planWithPreview} from '../../lib/cli/limits/run.js'
import {EXIT} from '../../lib/cli/output/exit.js'

export default class LimitsPlan extends StackCommand<typeof LimitsPlan> {
  static override summary = 'Preview `zael limits apply`'

  static override description =
    'Compares a manifest with the current limits. Changes nothing. The manifest names the namespace. To apply exactly ' +
    'the reviewed changes, write the plan to a file with --out and give that file to `zael limits apply`.'

  static override flags = {
    ...manifestFlags,
    ...impactFlags,
    out: string({description: 'Write the plan to this file, for `zael limits apply FILE`.', helpValue: 'FILE'}),
    'exit-code': boolean({description: 'Exit with code 6 if there are changes.'}),
  }

  static override examples = [
    {command: 'zael limits plan -f limits.yaml', description: 'Old and new values of every change'},
    {command: 'zael limits plan -f limits.yaml --impact', description: 'Include a replay of recorded usage'},
    {
      command: 'zael limits plan -f limits.yaml --out plan.json',
      description: 'To review, then: zael limits apply plan.json',
    },
    {command: 'zael limits plan -f limits.yaml --exit-code', description: 'In CI: 0 without changes, 6 with changes'},
  ]

  protected async work(): Promise<LimitsPlanResult> {
    const {file, out} = this.flags
    const source = await openManifest(file, this.stack, this.settings, {isKept: out !== undefined})
    const {manifest, namespace} = source
    const nowMs = this.stack.table.clock()
    const {plan, preview} = await planWithPreview(namespace, manifest, nowMs)
    this.print(manifestPlanLines(plan, preview, source.where))
    if (out !== undefined) {
      await writePlanFile(out, {plan, preview}, {namespace, text: source.text(), file, nowMs})
      this.print(planWrittenLines(out))
    }
    if (this.flags['exit-code'] && plan.changes.length > 0) process.exitCode = EXIT.negative
    const changes = plan.changes.filter(change => change.kind === 'limits')
    const seen = this.flags.impact ? await readImpact(namespace, changes, this.stack.table.clock()) : undefined
    if (seen) this.print(await impactText(seen, this.lineWidth))
    return {...manifestPlanJson(plan, preview), impact: seen ? impactJson(seen.impact, seen.range) : null}
  }
}

import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import type {RunJson} from '../../lib/cli/run/results.js'

export default class RunShow extends StackCommand<typeof RunShow> {
  static override summary = 'Show what a run has spent'

  static override description =
    'Shows the amount of a run, what it spent, and after its end what came back. Ended runs are kept for a week.'

  static override args = {
    run: string({description: 'Run id, from `zael run list`.', required: true, ignoreStdin: true}),
  }

  static override examples = [
    {command: 'zael run show 3kTq0vBn2aE', description: 'Amounts and end'},
    {command: 'zael run show 3kTq0vBn2aE --json', description: 'As JSON'},
  ]

  protected async work(): Promise<RunJson> {
    const [{neededRun}, {readRunState}, {runStateJson, runStateLines}, namespace] = await Promise.all([
      import('../../lib/repository/runs/runs.js'),
      import('../../lib/repository/runs/run-state.js'),
      import('../../lib/cli/run/presenter.js'),
      this.stack.namespace(),
    ])
    const table = {...this.stack.table, namespace: namespace.id}
    const run = await readRunState(table, await neededRun(table, this.args.run))
    this.print(runStateLines(run, {units: await namespace.configs.units(), nowMs: table.clock()}))
    return runStateJson(run)
  }
}

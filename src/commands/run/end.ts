import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import type {RunEndResult} from '../../lib/cli/run/results.js'

export default class RunEnd extends StackCommand<typeof RunEnd> {
  static override summary = 'End a run and return what is left'

  static override description =
    'Refuses further requests to the run in all processes, ends its sub-runs, and returns the rest to the limits that it ' +
    'came from. Tokens of an ended quota period do not come back. Writes an audit event. Does nothing if the run has already ended.'

  static override args = {
    run: string({description: 'Run id, from `zael run list`.', required: true, ignoreStdin: true}),
  }

  static override flags = {...yesFlag}

  static override examples = [
    {command: 'zael run end 3kTq0vBn2aE', description: 'Ask, then end it'},
    {command: 'zael run end 3kTq0vBn2aE --yes --json', description: 'In a script'},
  ]

  protected async work(): Promise<RunEndResult> {
    const [{endRun, neededRun}, {readRunState}, {endJson, endQuestion, runStateLines}, namespace] = await Promise.all([
      import('../../lib/repository/runs/runs.js'),
      import('../../lib/repository/runs/run-state.js'),
      import('../../lib/cli/run/presenter.js'),
      this.stack.namespace(),
    ])
    const table = {...this.stack.table, namespace: namespace.id}
    const before = await neededRun(table, this.args.run)
    const wasEnded = before.end !== undefined
    if (!wasEnded) {
      await confirm(endQuestion(await readRunState(table, before)), {yes: this.flags.yes})
      const {entity, id, resource} = before
      await namespace.audit.record({entity, action: 'run_ended', resource, details: {run: id}})
    }
    const {run} = await endRun(table, before.id)
    const state = await readRunState(table, run)
    this.print(runStateLines(state, {units: await namespace.configs.units(), nowMs: table.clock()}))
    return endJson(state, wasEnded)
  }
}

import {boolean} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'
import type {RunListResult} from '../../lib/cli/run/results.js'

export default class RunList extends StackCommand<typeof RunList> {
  static override summary = 'List runs: amounts that code has delegated'

  static override description =
    'Lists open runs, the earliest end first. "due" means that the time of the run is over: the next process that ' +
    'looks for dead processes, or `zael run end`, returns the rest. SPENT includes the amounts of open sub-runs. Writes ' +
    'nothing.'

  static override flags = {
    ended: boolean({description: 'List the runs that ended in the last week.'}),
    ...pageFlags,
    ...listFlags,
  }

  static override examples = [
    {command: 'zael run list', description: 'Open runs'},
    {command: 'zael run list --ended', description: 'What the last runs cost'},
    {command: 'zael run list --json', description: 'As JSON'},
  ]

  protected async work(): Promise<RunListResult> {
    const {ended = false, limit, all, cursor} = this.flags
    const [{listRuns}, {readRunState}, {runStateJson, runListing}, namespace] = await Promise.all([
      import('../../lib/repository/runs/runs.js'),
      import('../../lib/repository/runs/run-state.js'),
      import('../../lib/cli/run/presenter.js'),
      this.stack.namespace(),
    ])
    const table = {...this.stack.table, namespace: namespace.id}
    const {records, next} = await listRuns(table, {ended, limit: all ? undefined : limit, cursor})
    const runs = await Promise.all(records.map(record => readRunState(table, record)))
    const context = {units: await namespace.configs.units(), nowMs: table.clock()}
    await this.list(runListing(runs, context, ended))
    this.suggestNextPage(next)
    return {runs: runs.map(runStateJson), next: next ?? null}
  }
}

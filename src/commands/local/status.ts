import {BaseCommand} from '../../lib/cli/base/base-command.js'
import {openStack} from '../../lib/cli/base/context.js'
import {EXIT} from '../../lib/cli/output/exit.js'
import {localStatusLines, stateJson, type TableFacts} from '../../lib/cli/stack/local-presenter.js'
import type {LocalStatusResult} from '../../lib/cli/stack/results.js'

export default class LocalStatus extends BaseCommand<typeof LocalStatus> {
  static override summary = 'Show the state of the local stack'

  static override description = 'Exits with 6 if the stack is not running.'

  static override examples = [
    {command: 'zael local status', description: 'Engine, uptime, table, stream and aggregator'},
    {command: 'zael local status --json', description: 'As JSON'},
  ]

  async run(): Promise<LocalStatusResult> {
    const {stackStatus} = await import('../../lib/local/find.js')
    const {findStateDir} = await import('../../lib/local/state-dir/state.js')
    const stateDir = findStateDir()
    const status = await stackStatus(stateDir)
    const table = status.running ? await describeTable() : null
    this.print(localStatusLines(status, table, stateDir))
    if (!status.running) {
      process.exitCode = EXIT.negative
      const {problem, lastEnd} = status
      return {running: false, problem, lastEnd, home: stateDir.folder}
    }
    const {uptimeMs, enginePid, engineRestarts, aggregator} = status.live
    const live = {uptimeMs, enginePid, engineRestarts, aggregator}
    return {running: true, ...stateJson(status.state), ...live, table, home: stateDir.folder}
  }
}

async function describeTable(): Promise<TableFacts | null> {
  await using context = await openStack({stack: 'local', namespace: 'default'})
  const {Table} = await context.table.transport.send('DescribeTable', {TableName: context.stack})
  return Table ? {name: context.stack, status: Table.TableStatus ?? '', items: Table.ItemCount ?? 0} : null
}

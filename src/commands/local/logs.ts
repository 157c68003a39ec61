import {boolean, integer} from '@oclif/core/flags'
import {BaseCommand} from '../../lib/cli/base/base-command.js'
import {jsonText} from '../../lib/cli/output/json-text.js'
import {writeLines} from '../../lib/cli/output/lines.js'
import type {Streamed} from '../../lib/cli/output/results.js'
import {logLine} from '../../lib/cli/stack/local-presenter.js'
import type {LocalLogsResult} from '../../lib/cli/stack/results.js'

export default class LocalLogs extends BaseCommand<typeof LocalLogs> {
  static override summary = 'Show the log of the local stack'

  static override description =
    'Works even if the stack is not running. With --follow and --json, prints one JSON document per line.'

  static override flags = {
    follow: boolean({char: 'f', description: 'Print new lines until Ctrl-C.'}),
    tail: integer({min: 0, default: 100, description: 'Number of recent lines to print.', helpValue: 'N'}),
  }

  static override examples = [
    {command: 'zael local logs', description: 'The last 100 lines'},
    {command: 'zael local logs --follow --tail 0', description: 'Only new lines'},
  ]

  async run(): Promise<LocalLogsResult | Streamed> {
    const {followLog, tailLog} = await import('../../lib/local/state-dir/log.js')
    const {findStateDir} = await import('../../lib/local/state-dir/state.js')
    const {logFile} = findStateDir()
    const {follow, tail} = this.flags
    if (!follow) {
      const entries = await tailLog(logFile, tail)
      for (const entry of entries) this.log(logLine(entry))
      return {file: logFile, entries}
    }
    const lineOf = this.jsonEnabled() ? jsonText : logLine
    // Runs until the process ends: Ctrl-C or a closed pipe.
    for await (const entry of followLog(logFile, tail, new AbortController().signal)) {
      await writeLines([lineOf(entry)])
    }
    return {}
  }
}

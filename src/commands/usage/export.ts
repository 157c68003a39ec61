import {option} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {exportRangeFlags, timeRange} from '../../lib/cli/flags/time-range.js'
import {listFlags} from '../../lib/cli/output/listing.js'
import type {OutputFormat} from '../../lib/cli/output/output-format.js'
import type {Streamed} from '../../lib/cli/output/results.js'
import {
  coverageText,
  deletedText,
  exportListing,
  exportRows,
  exportScope,
  movedText,
  openText,
} from '../../lib/cli/usage/export-presenter.js'
import {DEFAULT_RANGE_MS, NOTHING_RECORDED} from '../../lib/cli/usage/presenter.js'

export default class UsageExport extends StackCommand<typeof UsageExport> {
  static override summary = 'Print all usage of a period as a file'

  static override description =
    'Prints a row per entity, resource, limit and window with tokens, money and refusals, for all entities of the ' +
    'namespace. Windows without usage have no row. The column "open" is true until ten minutes after the end of a ' +
    'window: its usage may still change. Rows of a parent include cascading requests of its children, even for ' +
    'limits that the children lack. Their column "kind" is "shared", in other rows it is "own". Amounts for names without a limit are not recorded. The column "parent" is the current parent.'

  static override flags = {
    ...exportRangeFlags,
    ...listFlags,
    output: option({
      char: 'o',
      options: ['csv', 'jsonl', 'json', 'yaml'] as const,
      description: 'Output format. Default: csv. --json is short for --output json.',
      helpGroup: 'GLOBAL',
    })(),
  }

  static override examples = [
    {
      command: 'zael usage export --since 2026-10-01 --until 2026-11-01 > october.csv',
      description: 'A month, day by day',
    },
    {
      command: 'zael usage export --window monthly --since 2026-10-01 --until 2026-11-01 > october.csv',
      description: 'A row per customer, resource and limit',
    },
    {command: 'zael usage export --window hourly --since 24h --output jsonl', description: 'A day, hour by hour'},
  ]

  protected override get format(): OutputFormat {
    const format = super.format
    return format === 'table' ? 'csv' : format
  }

  protected async work(): Promise<Streamed> {
    const {window, until, namespace: name} = this.flags
    const nowMs = this.stack.table.clock()
    const asked = timeRange(this.flags, nowMs, DEFAULT_RANGE_MS[window])
    const namespace = await this.stack.namespace()
    const [{exportUsage, wholeWindows}, {deletionsSince, movesSince}] = await Promise.all([
      import('../../lib/insight/usage/usage-export.js'),
      import('../../lib/insight/usage/moves.js'),
    ])
    const whole = wholeWindows({window, ...asked})
    const [moves, deletions] = await Promise.all([
      movesSince(namespace, whole.sinceMs),
      deletionsSince(namespace, whole.sinceMs),
    ])
    const notes = [movedText(moves), deletedText(deletions)]
    const items = exportRows(exportUsage(namespace, {window, ...asked}, nowMs, moves), name, ({rows, open}) => {
      if (rows === 0) this.logToStderr(NOTHING_RECORDED)
      if (open > 0) this.warn(openText(open))
    })
    const coverage = coverageText(asked, whole, until === undefined)
    if (coverage !== undefined) this.logToStderr(coverage)
    for (const note of notes) if (note !== undefined) this.logToStderr(note)
    const before = {window, ...exportScope(whole)}
    return this.listAll({before, field: 'rows', items, json: row => row, listing: exportListing})
  }
}

import {ZaelError} from '../../core/errors.js'
import {formatCount} from '../../core/text/text.js'
import type {Finding} from '../../insight/verify/finding.js'
import type {RepairOutcome} from '../../insight/verify/repair.js'
import type {VerifyReport, VerifyTableOptions} from '../../insight/verify/verify.js'
import type {Principal} from '../../repository/table/audit.js'
import type {Table} from '../../repository/table/table.js'
import {keepHeapSmall} from '../output/long-list.js'
import {withProgress} from '../output/progress.js'

export async function compareRecords(table: Table, stack: string, options: VerifyTableOptions): Promise<VerifyReport> {
  const {verifyTable} = await import('../../insight/verify/verify.js')
  keepHeapSmall()
  let cursor = options.cursor
  return withProgress(
    (line, signal) =>
      verifyTable(table, {
        ...options,
        signal,
        onProgress: progress => {
          cursor = progress.cursor ?? cursor
          line.count(`${formatCount(progress.findings)} findings, items checked`, progress.items)
        },
      }),
    () =>
      new ZaelError('interrupted', 'verify.interrupted', 'Interrupted. Nothing was written.', {
        hint:
          cursor === undefined
            ? `Run it again: zael verify -s ${stack}`
            : `To check the rest: zael verify -s ${stack} --cursor ${cursor}`,
        details: {cursor: cursor ?? null},
      }),
  )
}

export async function repairRecords(
  table: Table,
  findings: readonly Finding[],
  principal: Principal | undefined,
): Promise<Map<Finding, RepairOutcome>> {
  const {repairFindings} = await import('../../insight/verify/repair.js')
  let repaired = 0
  return withProgress(
    (line, signal) =>
      repairFindings(table, findings, {
        principal,
        signal,
        onProgress: done => {
          repaired = done
          line.bar('Repairing', done, findings.length)
        },
      }),
    () =>
      new ZaelError(
        'interrupted',
        'verify.interrupted',
        `Interrupted after ${formatCount(repaired)} of ${formatCount(findings.length)} findings.`,
        {hint: 'Run it again; what is repaired stays repaired.'},
      ),
  )
}

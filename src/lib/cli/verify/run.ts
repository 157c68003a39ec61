import {ZaelError} from '../../core/errors.js'
import {formatCount, shellWord} from '../../core/text/text.js'
import type {Finding, RepairOutcome} from '../../insight/verify/finding.js'
import type {VerifyReport, VerifyTableOptions} from '../../insight/verify/verify.js'
import type {Principal} from '../../repository/table/audit.js'
import type {Table} from '../../repository/table/table.js'
import {keepHeapSmall} from '../output/long-list.js'
import {withProgress} from '../output/progress.js'

interface VerifyFlags {
  readonly entity?: string | undefined
  readonly since?: string | undefined
  readonly fix?: boolean
  readonly 'rate-limit'?: number | undefined
}

/** `flags`: as typed, to repeat them after an interruption. */
export async function compareRecords(
  table: Table,
  stack: string,
  options: VerifyTableOptions,
  flags: VerifyFlags = {},
): Promise<VerifyReport> {
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
        hint: resumeHint(stack, flags, cursor),
        details: {cursor: cursor ?? null},
      }),
  )
}

function resumeHint(stack: string, flags: VerifyFlags, read: string | undefined): string {
  const {entity, since, fix, 'rate-limit': rateLimit} = flags
  // A cursor excludes --entity.
  const cursor = entity === undefined ? read : undefined
  const given = [
    ...(entity === undefined ? [] : ['--entity', entity]),
    ...(since === undefined ? [] : ['--since', since]),
    ...(fix ? ['--fix'] : []),
    ...(rateLimit === undefined ? [] : ['--rate-limit', String(rateLimit)]),
    ...(cursor === undefined ? [] : ['--cursor', cursor]),
  ]
  const command = ['zael', 'verify', '-s', stack, ...given].map(shellWord).join(' ')
  return `${cursor === undefined ? 'Run it again' : 'To check the rest'}: ${command}`
}

export async function repairRecords(
  table: Table,
  findings: readonly Finding[],
  principal: Principal | undefined,
): Promise<Map<Finding, RepairOutcome>> {
  const {repairFindings} = await import('../../insight/verify/finding.js')
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

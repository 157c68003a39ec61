import {Audit, type Principal, storedAuditRetention} from '../../repository/table/audit.js'
import type {Table} from '../../repository/table/table.js'
import {SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import type {Finding} from './finding.js'

/** `changed`: the records were written meanwhile, so a new look is needed. */
export type RepairOutcome = 'repaired' | 'changed' | 'undecided'

/** Each repair is conditional on what was read, and recorded in the audit of its namespace. */
export async function repairFindings(
  table: Table,
  findings: readonly Finding[],
  options: {
    readonly principal?: Principal | undefined
    readonly signal?: AbortSignal | undefined
    readonly onProgress?: ((done: number) => void) | undefined
  } = {},
): Promise<Map<Finding, RepairOutcome>> {
  const outcomes = new Map<Finding, RepairOutcome>()
  for (const finding of findings) {
    options.signal?.throwIfAborted()
    if (!finding.repair) outcomes.set(finding, 'undecided')
    else if (await finding.repair()) {
      outcomes.set(finding, 'repaired')
      await record(table, finding, options.principal)
    } else outcomes.set(finding, 'changed')
    options.onProgress?.(outcomes.size)
  }
  return outcomes
}

async function record(table: Table, finding: Finding, principal: Principal | undefined): Promise<void> {
  const {namespace, entity = SYSTEM_SUBJECT, resource, kind, key, reason} = finding
  if (namespace === undefined) return
  const inNamespace = {...table, namespace}
  const audit = new Audit(inNamespace, {principal, retentionDays: storedAuditRetention(inNamespace)})
  const details = {kind, key, reason}
  await audit.record({entity, action: 'verify_repaired', details, ...(resource === undefined ? {} : {resource})})
}

import {Audit, type Principal, storedAuditRetention} from '../../repository/table/audit.js'
import type {Table} from '../../repository/table/table.js'
import {SYSTEM_SUBJECT} from '../../schema/audit-record.js'

/** In report order. */
export const FINDING_KINDS = {
  usage: 'usage counted twice or not at all',
  refill: 'a refill instant ahead of time',
  remainder: 'an unreadable fraction of a token',
  limits: 'limits that differ from the configuration',
  limitless: 'a bucket without limits at any level, in a migrated table',
  shards: 'missing, surplus or inconsistent shards',
  slots: 'in-flight limits whose free and used slots do not add up',
  holder: 'slots or reserved tokens of a process that is dead',
  ghost: 'the remains of a deleted bucket',
  parent: 'a parent that is missing or differs',
  index: 'missing or wrong index keys',
  boost: 'an expired temporary limit or switch that is still configured',
  registry: 'a registry that differs from the records',
  namespace: 'a namespace whose two records disagree',
  orphan: 'records of a namespace that does not exist',
  malformed: 'attributes that cannot be read',
  unknown: 'an unknown item',
} as const

export type FindingKind = keyof typeof FINDING_KINDS

export interface Finding {
  readonly kind: FindingKind
  readonly key: string
  /** The part of the record concerned, such as a limit. Distinguishes findings of one kind. */
  readonly subject: string
  readonly namespace: string | undefined
  readonly entity: string | undefined
  readonly resource: string | undefined
  readonly reason: string
  /** ISO instant, if the records show one. */
  readonly since: string | undefined
  /** Resolves to false if the records changed since. Absent if the correct value is unknown. */
  readonly repair?: ((principal?: Principal) => Promise<boolean>) | undefined
}

/** The key, and by default the names in it, are added later. */
export type ItemFinding = Pick<Finding, 'kind' | 'subject' | 'reason' | 'repair'> &
  Partial<Pick<Finding, 'namespace' | 'entity' | 'resource' | 'since'>>

/** Stable between scans, even if amounts change. */
export const findingId = ({kind, key, subject}: Pick<Finding, 'kind' | 'key' | 'subject'>): string =>
  JSON.stringify([kind, key, subject])

/** `changed`: the records were written meanwhile, so a new scan is needed. */
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
    else if (await finding.repair(options.principal)) {
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

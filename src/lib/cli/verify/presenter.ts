import {ZaelError} from '../../core/errors.js'
import {printableText} from '../../core/text/printable.js'
import {formatCount, formatPlural, shellWord} from '../../core/text/text.js'
import {FINDING_KINDS, type Finding, type FindingKind, type RepairOutcome} from '../../insight/verify/finding.js'
import type {VerifyReport, VerifyTableOptions} from '../../insight/verify/verify.js'
import type {Principal} from '../../repository/table/audit.js'
import type {Table} from '../../repository/table/table.js'
import {paint} from '../output/lines.js'
import {keepHeapSmall} from '../output/long-list.js'
import {withProgress} from '../output/progress.js'
import {type NextCommand, nextLines} from '../output/text-table.js'
import type {VerifyFindingJson, VerifyResult} from './results.js'

/** Per kind, without --all. */
const SHOWN = 10

export interface Verified {
  readonly stack: string
  readonly entity: string | undefined
  readonly report: VerifyReport
  /** Empty without --fix. */
  readonly outcomes: ReadonlyMap<Finding, RepairOutcome>
}

/** Includes findings that are not listed. */
const countOf = ({counts}: VerifyReport): number => [...counts.values()].reduce((sum, count) => sum + count, 0)

export function verifyJson({stack, entity, report, outcomes}: Verified): VerifyResult {
  const repaired = repairedOf(undefined, outcomes)
  const count = countOf(report)
  return {
    stack,
    entity: entity ?? null,
    items: report.items,
    oldItems: report.oldItems,
    clean: repaired === count,
    findings: report.findings.map(finding => findingJson(finding, outcomes.get(finding))),
    count,
    repaired,
  }
}

function findingJson(finding: Finding, outcome: RepairOutcome | undefined): VerifyFindingJson {
  const {kind, key, namespace, entity, resource, reason, since, repair} = finding
  return {
    kind,
    key,
    namespace: namespace ?? null,
    entity: entity ?? null,
    resource: resource ?? null,
    reason,
    since: since ?? null,
    repairable: repair !== undefined,
    outcome: outcome ?? 'found',
  }
}

export function verifyLines({stack, entity, report, outcomes}: Verified, {all}: {readonly all: boolean}): string[] {
  const {items, oldItems, findings, counts} = report
  const checked = `${formatPlural(items, 'item')} of stack "${stack}"${entity === undefined ? '' : `, entity ${entity}`}`
  const count = countOf(report)
  const repaired = repairedOf(undefined, outcomes)
  const fixed = outcomes.size === 0 ? '' : `, ${formatCount(repaired)} repaired`
  const lines = [count === 0 ? `${checked}: no findings` : `${checked}: ${formatPlural(count, 'finding')}${fixed}`]
  for (const kind of Object.keys(FINDING_KINDS) as FindingKind[]) {
    const found = findings.filter(finding => finding.kind === kind && outcomes.get(finding) !== 'repaired')
    if (found.length === 0) continue
    lines.push('', `${paint('bold', kind)}  ${FINDING_KINDS[kind]}`)
    for (const finding of all ? found : found.slice(0, SHOWN))
      lines.push(...findingLines(finding, outcomes.get(finding)))
    const more =
      (counts.get(kind) ?? 0) - repairedOf(kind, outcomes) - (all ? found.length : Math.min(SHOWN, found.length))
    if (more > 0) lines.push(`  and ${formatCount(more)} more; --all lists all`)
  }
  if (oldItems > 0)
    lines.push('', `${formatPlural(oldItems, 'item')} of an older layout not checked; see \`zael migrate status\``)
  return [...lines, ...nextLines(nextOf(stack, findings, outcomes))]
}

function repairedOf(kind: FindingKind | undefined, outcomes: ReadonlyMap<Finding, RepairOutcome>): number {
  const isCounted = (finding: Finding) => kind === undefined || finding.kind === kind
  return [...outcomes].filter(([finding, outcome]) => outcome === 'repaired' && isCounted(finding)).length
}

function findingLines({key, reason, since, repair}: Finding, outcome: RepairOutcome | undefined): string[] {
  const state = outcome === 'changed' ? 'changed since, not repaired' : repair ? 'repairable' : 'needs your decision'
  const when = since === undefined ? '' : `, last written ${since}`
  return [`  ${printableText(key)}`, `    ${printableText(reason)} (${state}${when})`]
}

function nextOf(stack: string, findings: readonly Finding[], outcomes: ReadonlyMap<Finding, RepairOutcome>) {
  const next: NextCommand[] = []
  if (outcomes.size === 0 && findings.some(({repair}) => repair)) {
    next.push([`zael verify -s ${stack} --fix`, 'repair the repairable findings, after confirmation'])
  }
  if (findings.some(({kind}) => kind === 'orphan'))
    next.push([`zael namespace orphans -s ${stack}`, 'list deleted namespaces with remaining data'])
  return next
}

interface VerifyFlags {
  readonly entity?: string | undefined
  readonly since?: string | undefined
  readonly fix?: boolean
  readonly 'rate-limit'?: number | undefined
}

/** `flags`: as typed, for the command that resumes. */
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
  return `${cursor === undefined ? 'Run again' : 'Resume'}: ${command}`
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
        {hint: 'Run it again to repair the rest.'},
      ),
  )
}

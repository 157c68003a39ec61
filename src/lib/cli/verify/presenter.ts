import {printableText} from '../../core/text/printable.js'
import {formatCount, formatPlural} from '../../core/text/text.js'
import {FINDING_KINDS, type Finding, type FindingKind, type RepairOutcome} from '../../insight/verify/finding.js'
import type {VerifyReport} from '../../insight/verify/verify.js'
import {paint} from '../output/paint.js'
import {nextLines} from '../output/text-table.js'
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
  const lines = [
    count === 0 ? `${checked}: nothing wrong found` : `${checked}: ${formatPlural(count, 'finding')}${fixed}`,
  ]
  for (const kind of Object.keys(FINDING_KINDS) as FindingKind[]) {
    const found = findings.filter(finding => finding.kind === kind && outcomes.get(finding) !== 'repaired')
    if (found.length === 0) continue
    lines.push('', `${paint('bold', kind)}  ${FINDING_KINDS[kind]}`)
    for (const finding of all ? found : found.slice(0, SHOWN))
      lines.push(...findingLines(finding, outcomes.get(finding)))
    const more =
      (counts.get(kind) ?? 0) - repairedOf(kind, outcomes) - (all ? found.length : Math.min(SHOWN, found.length))
    if (more > 0) lines.push(`  and ${formatCount(more)} more; --all lists them`)
  }
  if (oldItems > 0)
    lines.push('', `${formatPlural(oldItems, 'item')} of an older layout not checked; see \`zael migrate status\``)
  const next = nextOf(stack, findings, outcomes)
  return next.length === 0 ? lines : [...lines, ...nextLines(next)]
}

function repairedOf(kind: FindingKind | undefined, outcomes: ReadonlyMap<Finding, RepairOutcome>): number {
  const isCounted = (finding: Finding) => kind === undefined || finding.kind === kind
  return [...outcomes].filter(([finding, outcome]) => outcome === 'repaired' && isCounted(finding)).length
}

function findingLines({key, reason, since, repair}: Finding, outcome: RepairOutcome | undefined): string[] {
  const state = outcome === 'changed' ? 'written to meanwhile, not touched' : repair ? 'repairable' : 'to be decided'
  const when = since === undefined ? '' : `, last written ${since}`
  return [`  ${printableText(key)}`, `    ${printableText(reason)} (${state}${when})`]
}

function nextOf(stack: string, findings: readonly Finding[], outcomes: ReadonlyMap<Finding, RepairOutcome>) {
  const next: [string, string][] = []
  if (outcomes.size === 0 && findings.some(({repair}) => repair)) {
    next.push([`zael verify -s ${stack} --fix`, 'repair what can be repaired; asks first'])
  }
  if (findings.some(({kind}) => kind === 'orphan'))
    next.push([`zael namespace orphans -s ${stack}`, 'namespaces whose data still exists'])
  return next
}

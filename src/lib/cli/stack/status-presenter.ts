import {printableText} from '../../core/text/printable.js'
import {formatCount, formatNumber, formatPlural, formatSpan} from '../../core/text/text.js'
import {cutText} from '../../core/text/text-width.js'
import type {StackHealth} from '../../infra/health/health.js'
import {
  type AggregatorPart,
  type AlarmPart,
  passesCheck,
  type StackPart,
  type TablePart,
  type VersionPart,
} from '../../infra/health/parts.js'
import type {DriftedResource} from '../../infra/stack/drift.js'
import {PART_NAMES, type SupervisorFacts, constantWords as words} from '../base/local-health.js'
import {paint} from '../output/lines.js'
import {type Facts, factLines, findingLines} from '../output/text-table.js'
import {resourceName} from './deploy-presenter.js'
import type {StatusResult} from './results.js'

export function statusHealthLines(health: StackHealth, local: SupervisorFacts | null): string[] {
  const {stack, region, findings, unknown} = health
  const problems = findings.filter(({severity}) => severity === 'problem')
  const notes = findings.filter(({severity}) => severity === 'note')
  return [
    ...factLines(`Stack ${stack}, ${region ?? 'on this machine'}`, {...stackFacts(health), ...localFacts(local)}),
    ...block('Alarms', Object.fromEntries((health.alarms ?? []).map(({name, state}) => [name, words(state)]))),
    ...block('Policies', policyFacts(health.cloudFormation)),
    ...driftLines(health.drift ?? []),
    ...findingLines('Problems', problems),
    ...findingLines('Notes', notes),
    ...findingLines(
      'Unknown',
      unknown.map(({part, reason, fix}) => ({message: `${PART_NAMES[part]}: ${reason}`, fix})),
    ),
    '',
    verdict(health, problems.length),
  ]
}

export function healthJson(health: StackHealth, local: SupervisorFacts | null): StatusResult {
  const {isHealthy, aggregator, versions, ...parts} = health
  return {
    ...parts,
    healthy: isHealthy,
    aggregator: aggregator && aggregatorJson(aggregator),
    versions: versions && versionsJson(versions),
    local,
  }
}

function aggregatorJson({isOurCode, ...code}: AggregatorPart): StatusResult['aggregator'] {
  return {...code, ownCode: isOurCode}
}

function versionsJson({isMigrationDue, ...versions}: VersionPart): StatusResult['versions'] {
  return {...versions, migrationDue: isMigrationDue}
}

function stackFacts(health: StackHealth): Facts {
  const {cloudFormation, table, aggregator, mapping, traffic, deadLetters, alarms, versions} = health
  const isAggregatorKnown = !health.unknown.some(({part}) => part === 'aggregator')
  return {
    deployed: cloudFormation ? deployedText(cloudFormation) : undefined,
    role: cloudFormation?.role ?? undefined,
    options: cloudFormation?.parameters.chosen.map(({name, value}) => `${name}=${value}`).join(', ') || undefined,
    table: table
      ? `${words(table.status)}, ${formatPlural(table.items, 'item')}, ${formatBytes(table.bytes)}`
      : undefined,
    indexes: table?.indexes.map(({name, projection}) => `${name} ${words(projection)}`).join(', '),
    safety: table ? safetyText(table, cloudFormation) : undefined,
    throughput: table ? throughputText(table) : undefined,
    stream: table ? streamText(table) : undefined,
    throttled: traffic
      ? `${formatCount(traffic.throttledReads)} reads, ${formatCount(traffic.throttledWrites)} writes in the last hour`
      : undefined,
    refused: traffic ? `${formatPlural(traffic.refusedRequests, 'request')} in the last hour` : undefined,
    aggregator: aggregator ? aggregatorText(aggregator) : isAggregatorKnown ? 'none: usage is not counted' : undefined,
    mapping: mapping ? [words(mapping.state), mapping.lastResult].filter(Boolean).join(', ') : undefined,
    lag: aggregator && traffic ? lagText(traffic.iteratorAgeMs, traffic.aggregatorErrors) : undefined,
    'dead letters': deadLetters ? `${formatCount(deadLetters.messages)} in ${deadLetters.queue}` : undefined,
    alarms: alarms ? alarmsText(alarms) : undefined,
    versions: versions ? versionsText(versions) : undefined,
    drift: health.drift ? driftText(health.drift) : undefined,
  }
}

function deployedText({owner, version, status, createdAt, updatedAt}: StackPart): string {
  const by = owner === 'other' ? 'by another tool' : `by ${owner}${version === null ? '' : ` ${version}`}`
  return `${by}, ${words(status)}, ${updatedAt ?? createdAt ?? 'no date'}`
}

function safetyText({deletionProtection, pointInTimeRecovery}: TablePart, stack: StackPart | null): string {
  const recovery = `point-in-time recovery ${onOff(pointInTimeRecovery)}`
  const ofStack = stack ? `, termination protection ${onOff(stack.terminationProtection)}` : ''
  return `deletion protection ${onOff(deletionProtection)}, ${recovery}${ofStack}`
}

/** In units per second; `undefined` where unknown, as on a local engine. */
function throughputText({throughput}: TablePart): string | undefined {
  const {maxReads, maxWrites, warmReads, warmWrites} = throughput
  const of = (reads: number | null, writes: number | null) =>
    [reads === null ? [] : `${formatCount(reads)} reads`, writes === null ? [] : `${formatCount(writes)} writes`].flat()
  const most = of(maxReads, maxWrites)
  const warm = of(warmReads, warmWrites)
  const parts = [
    ...(most.length === 0 ? [] : [`at most ${most.join(' and ')} a second`]),
    ...(warm.length === 0 ? [] : [`warm for ${warm.join(' and ')} a second`]),
  ]
  return parts.length === 0 ? undefined : parts.join(', ')
}

function streamText({stream, expiry}: TablePart): string {
  const images = stream === 'NEW_AND_OLD_IMAGES' ? 'both images' : stream === null ? 'off' : words(stream)
  return `${images}, expiry ${onOff(expiry)}`
}

function aggregatorText({name, runtime, memoryMb, isOurCode, state}: AggregatorPart): string {
  const code = isOurCode === null ? undefined : isOurCode ? 'same code as this zael' : 'different code from this zael'
  const memory = memoryMb === null ? undefined : `${formatCount(memoryMb)} MB`
  return [name, words(state), runtime, memory, code].filter(Boolean).join(', ')
}

function lagText(iteratorAgeMs: number | null, errors: number): string {
  const age = iteratorAgeMs === null ? 'no records in the last hour' : `${formatSpan(iteratorAgeMs)} behind`
  return `${age}, ${formatCount(errors)} errors in the last hour`
}

function alarmsText(alarms: readonly AlarmPart[]): string {
  if (alarms.length === 0) return 'none'
  const states = [...new Set(alarms.map(({state}) => state))].sort()
  const figures = states
    .map(state => `${alarms.filter(each => each.state === state).length} ${words(state)}`)
    .join(', ')
  return alarms.some(({notifies}) => notifies) ? figures : `${figures}; no notifications configured`
}

function versionsText({schemaVersion, updatedBy, release, isMigrationDue}: VersionPart): string {
  const layout = schemaVersion === null ? 'no version record' : `layout ${schemaVersion}`
  const by = updatedBy === null ? '' : ` by ${updatedBy}`
  const records = release === null || release === schemaVersion ? '' : `, records of zae-limiter ${release}`
  return `${layout}${by}${records}, ${isMigrationDue ? 'migration pending' : 'no migration pending'}`
}

function driftText(drift: readonly DriftedResource[]): string {
  return drift.length === 0 ? 'none: all resources match the template' : `in ${formatPlural(drift.length, 'resource')}`
}

function driftLines(drift: readonly DriftedResource[]): string[] {
  const lines = drift.flatMap(resource => [
    `  ${resourceName(resource)}${resource.change === 'deleted' ? ': deleted' : ''}`,
    ...resource.properties.map(({path, expected, actual}) => `    ${path}: ${shown(expected)} -> ${shown(actual)}`),
  ])
  return lines.length === 0 ? [] : ['', 'Drift', ...lines]
}

const LONGEST_VALUE = 40

function shown(value: string | null): string {
  return cutText(printableText(value ?? 'not set'), LONGEST_VALUE)
}

function localFacts(local: SupervisorFacts | null): Facts {
  if (!local) return {}
  const {endpoint, engine, uptimeMs, engineRestarts, aggregator} = local
  const restarts = engineRestarts === 0 ? '' : `, restarts: ${formatCount(engineRestarts)}`
  return {
    endpoint,
    engine: `${engine}, up ${formatSpan(uptimeMs)}${restarts}`,
    aggregator: aggregator
      ? `records ${formatCount(aggregator.records)}, errors ${formatCount(aggregator.errors)}, lag ${formatSpan(aggregator.lagMs)}`
      : 'off: usage is not counted',
  }
}

function policyFacts(part: StackPart | null): Facts {
  const arns = Object.entries(part?.outputs ?? {}).filter(([name]) => name.endsWith('PolicyArn'))
  return Object.fromEntries(arns.map(([name, arn]) => [name.replace(/PolicyArn$/, ''), arn]))
}

function block(title: string, facts: Facts): string[] {
  return Object.keys(facts).length === 0 ? [] : ['', ...factLines(title, facts)]
}

function verdict(health: StackHealth, problems: number): string {
  const {stack, isHealthy, unknown} = health
  const missing = unknown.map(({part}) => PART_NAMES[part]).join(', ')
  if (isHealthy === true) return paint('green', `${stack} is healthy`)
  if (isHealthy === false) {
    const doubt = unknown.length === 0 ? '' : `; unknown: ${missing}`
    return paint('red', `${stack} is degraded: ${formatPlural(problems, 'problem')}`) + doubt
  }
  return passesCheck(health)
    ? `${paint('green', `${stack} is healthy`)}; unknown: ${missing}`
    : `${paint('red', `The health of ${stack} is unknown`)}; could not read: ${missing}`
}

function onOff(value: boolean | null): string {
  return value === null ? 'unknown' : value ? 'on' : 'off'
}

function formatBytes(bytes: number): string {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'] as const
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  return `${formatNumber(bytes / 1000 ** power, 'nearest', 1)} ${units[power]}`
}

import type {StackContext} from '../cli/base/context.js'
import {
  PART_NAMES,
  type SupervisorFacts,
  supervisorOf,
  withSupervisor,
  constantWords as words,
} from '../cli/base/local-health.js'
import {formatCount, formatPlural, formatSpan} from '../core/text/text.js'
import type {StackHealth} from '../infra/health/health.js'
import {type HealthParts, OLD_RECORD_MS, type PartName} from '../infra/health/parts.js'
import {untilAborted} from '../repository/table/table.js'
import type {HealthLine, HealthSource} from './model/model.js'

/** Loads modules on first use. The signal aborts requests in flight. */
export function healthSource({stack, table, awsServices, endpoint}: StackContext, ourVersion: string): HealthSource {
  return async signal => {
    const {gatherHealth} = await import('../infra/health/health.js')
    using aws = await awsServices(signal)
    const local = aws ? null : await supervisorOf({stack, endpoint})
    return stackHealthLines(
      withSupervisor(await gatherHealth({table: untilAborted(table, signal), aws, ourVersion}), local),
      local,
    )
  }
}

export function stackHealthLines(health: StackHealth, local: SupervisorFacts | null): HealthLine[] {
  const stateOf = (part: PartName): HealthLine['state'] => {
    const found = health.findings.filter(finding => finding.part === part)
    return found.some(({severity}) => severity === 'problem') ? 'bad' : found.length > 0 ? 'warn' : 'ok'
  }
  return [
    ...(local ? supervisorLines(local, stateOf('aggregator')) : []),
    ...(Object.keys(PART_TEXTS) as PartName[]).flatMap(part => {
      const texts = PART_TEXTS[part](health)
      return texts.map(text => ({name: PART_NAMES[part], state: stateOf(part), text}))
    }),
    ...health.findings.map(({part, severity, message, fix}) => ({
      name: PART_NAMES[part],
      state: severity === 'problem' ? ('bad' as const) : ('warn' as const),
      text: fix === null ? message : `${message} Try: ${fix}`,
    })),
    ...health.unknown.map(({part, reason}) => ({name: PART_NAMES[part], state: 'unknown' as const, text: reason})),
  ]
}

const PART_TEXTS: Readonly<Record<PartName, (parts: HealthParts) => string[]>> = {
  cloudFormation: ({cloudFormation}) => (cloudFormation ? [words(cloudFormation.status)] : []),
  table: ({table}) => {
    if (!table) return []
    const stream = table.stream === null ? 'no stream' : 'with a stream'
    return [`${words(table.status)}, ${formatCount(table.items)} items, ${stream}`]
  },
  aggregator: ({aggregator}) => (aggregator ? [`${aggregator.name}, ${words(aggregator.state)}`] : []),
  mapping: ({mapping}) => (mapping ? [words(mapping.state)] : []),
  traffic: ({traffic}) => {
    if (!traffic) return []
    const {throttledReads, throttledWrites, aggregatorErrors, iteratorAgeMs} = traffic
    const lag = iteratorAgeMs === null ? 'no stream records' : `stream lag ${formatSpan(iteratorAgeMs)}`
    const throttled = `throttled ${formatCount(throttledReads)} reads, ${formatCount(throttledWrites)} writes`
    return [`${lag}, ${throttled}, ${formatCount(aggregatorErrors)} aggregator errors in the last hour`]
  },
  deadLetters: ({deadLetters}) => (deadLetters ? [`${formatCount(deadLetters.messages)} batches`] : []),
  alarms: ({alarms}) => alarms?.map(({name, state}) => `${name}: ${words(state)}`) ?? [],
  versions: ({versions}) => {
    if (!versions) return []
    const {schemaVersion, lambdaVersion} = versions
    return [`layout ${schemaVersion ?? 'not recorded'}, aggregator ${lambdaVersion ?? 'not recorded'}`]
  },
  drift: () => [],
}

function supervisorLines(local: SupervisorFacts, aggregatorState: HealthLine['state']): HealthLine[] {
  const {engine, uptimeMs, engineRestarts, aggregator} = local
  const restarts = formatPlural(engineRestarts, 'restart')
  const lines: HealthLine[] = [
    {
      name: 'engine',
      state: engineRestarts > 0 ? 'warn' : 'ok',
      text: `${engine}, up ${formatSpan(uptimeMs)}, ${restarts}`,
    },
  ]
  if (!aggregator) return [...lines, {name: 'aggregator', state: 'warn', text: 'off: usage is not counted'}]
  const {records, snapshots, refills, splits, errors, lagMs} = aggregator
  const figures = Object.entries({records, snapshots, refills, splits, errors})
  return [
    ...lines,
    // Unlike a Lambda mapping, the local aggregator does not wait for full batches.
    {name: 'stream lag', state: lagMs > OLD_RECORD_MS ? 'bad' : 'ok', text: formatSpan(lagMs)},
    {
      name: 'aggregator',
      state: aggregatorState,
      text: figures.map(([name, count]) => `${name} ${formatCount(count)}`).join(', '),
    },
  ]
}

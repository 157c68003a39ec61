import {formatCount, formatPlural} from '../../core/text/text.js'
import {indexes as indexNames} from '../../schema/attributes.js'
import type {DriftedResource} from '../stack/drift.js'
import {DEFAULT_PARAMETERS} from '../stack/options.js'
import {
  deployCommand,
  LOST_TABLE_FIX,
  logsCommand,
  rebuildCommand,
  recoveryCommand,
  removeMaximum,
  repairCommand,
  restreamCommand,
} from '../stack/reader.js'
import {
  type AggregatorPart,
  type AlarmPart,
  alarmNames,
  type DeadLettersPart,
  type HealthFinding,
  type HealthParts,
  isProblem,
  type MappingPart,
  OLD_RECORD_MS,
  type PartName,
  type StackPart,
  type TablePart,
  type TrafficPart,
  type VersionPart,
} from './parts.js'

type Found = Omit<HealthFinding, 'part'>

/** Code smaller than this is the template's placeholder, which fails on purpose. */
const PLACEHOLDER_BYTES = 4_096

export function findingsOf(stack: string, parts: HealthParts, isKnown: (part: PartName) => boolean): HealthFinding[] {
  const {cloudFormation, table, aggregator, mapping, traffic, deadLetters, alarms, versions, drift} = parts
  const found: HealthFinding[] = []
  const add = (part: PartName, list: readonly Found[]) => found.push(...list.map(each => ({part, ...each})))
  const deploy = deployCommand(stack, cloudFormation?.owner)
  const rebuild = rebuildCommand(stack, cloudFormation?.owner)
  if (cloudFormation) add('cloudFormation', ofStack(stack, cloudFormation, deploy))
  if (table) {
    add('table', ofTable(stack, table, cloudFormation !== null || aggregator !== null))
    add('table', ofReplicas(table))
    if (cloudFormation) add('table', ofThroughput(stack, table, cloudFormation))
  }
  if (!table && isKnown('table')) add('table', [noTable(stack, cloudFormation)])
  if (aggregator) {
    add('aggregator', ofAggregator(deploy, aggregator))
    if (mapping) add('mapping', ofMapping(mapping))
    else if (isKnown('mapping') && table?.stream) add('mapping', [problem(NO_MAPPING, rebuild)])
  } else if (cloudFormation?.outputs.AggregatorFunctionName && isKnown('aggregator')) {
    add('aggregator', [problem('The function does not exist: usage is not counted.', rebuild)])
  }
  const logs = aggregator ? logsCommand(aggregator.name) : null
  if (traffic) add('traffic', ofTraffic(traffic, OLD_RECORD_MS + batchWindowMs(cloudFormation), logs))
  if (deadLetters) add('deadLetters', ofDeadLetters(stack, deadLetters))
  if (alarms) add('alarms', ofAlarms(alarms, alarmNames(cloudFormation?.outputs ?? {}), rebuild))
  if (versions) add('versions', ofVersions(deploy, versions))
  if (drift) add('drift', ofDrift(drift, rebuild))
  return [...found.filter(isProblem), ...found.filter(each => !isProblem(each))]
}

/** A rolled-back update does not count: the stack is consistent. */
export function hasFailed(status: string): boolean {
  return /FAILED$|^(IMPORT_)?ROLLBACK_COMPLETE$/.test(status)
}

function ofStack(stack: string, part: StackPart, deploy: string): Found[] {
  const {status, statusReason, owner, parameters} = part
  const why = statusReason ? ` (${statusReason})` : ''
  const found: Found[] = []
  if (/_IN_PROGRESS$/.test(status)) {
    found.push(note(`CloudFormation is changing the stack: ${status}.`, `zael status --stack ${stack}`))
  } else if (status === 'UPDATE_ROLLBACK_COMPLETE') {
    found.push(note(`The last update was rolled back${why}.`, deploy))
  } else if (hasFailed(status)) {
    found.push(problem(`The CloudFormation status is ${status}${why}.`, deploy))
  }
  if (owner === 'zael' && parameters.missing.length > 0) {
    const [first, ...others] = parameters.missing
    const names = others.length === 0 ? first : `${first} and ${others.length} more parameters`
    found.push(note(`The template of this zael version is newer. It adds ${names}.`, `${deploy} --dry-run`))
  }
  return found
}

/** A table on a local engine without an aggregator needs no stream. */
function ofTable(stack: string, table: TablePart, isFollowed: boolean): Found[] {
  const {status, stream, expiry, pointInTimeRecovery, indexes} = table
  const repair = repairCommand(stack)
  const found: Found[] = []
  if (status === 'UPDATING') found.push(note('The table is being changed.', null))
  else if (status !== 'ACTIVE') found.push(problem(`The table is ${status}.`, null))
  const names = new Set(indexes.map(({name}) => name))
  const missing = Object.values<string>(indexNames).filter(name => !names.has(name))
  if (missing.length > 0) found.push(problem(`The table lacks ${missing.join(', ')}.`, repair))
  const unready = indexes.filter(index => index.status !== 'ACTIVE')
  for (const index of unready) found.push(note(`${index.name} is ${index.status}; queries on it wait.`, null))
  if (stream === null)
    found.push((isFollowed ? problem : note)('The table has no stream: usage is not counted.', repair))
  else if (stream !== 'NEW_AND_OLD_IMAGES') {
    found.push(problem(`The stream has ${stream}; usage needs NEW_AND_OLD_IMAGES.`, restreamCommand(stack)))
  }
  if (expiry === false) found.push(problem('Expiry is off: old usage and audit events are never removed.', repair))
  if (pointInTimeRecovery === false) found.push(note('Point-in-time recovery is off.', recoveryCommand(stack)))
  return found
}

/** Each region decides from its own copy, and the last writer overwrites the consumption of the others. */
function ofReplicas({replicas}: TablePart): Found[] {
  if (replicas.length === 0) return []
  const message = `The table has replicas in ${replicas.join(', ')}: limits do not hold if clients use several regions.`
  return [problem(message, 'See docs/regions.md')]
}

/** Finds maxima that are not in the stack: another tool set them, or an update left them. */
function ofThroughput(stack: string, {throughput}: TablePart, {owner, parameters}: StackPart): Found[] {
  if (owner !== 'zael') return []
  const found = (kind: 'Read' | 'Write', units: number | null) => {
    const asked = parameters.chosen.find(({name}) => name === `OnDemandMax${kind}Units`)?.value
    if (units === null || asked === String(units)) return []
    const message = `The table has a maximum of ${formatCount(units)} ${kind.toLowerCase()} units a second; the stack has ${asked ?? 'none'}.`
    return [note(message, removeMaximum(stack, kind))]
  }
  return [...found('Read', throughput.maxReads), ...found('Write', throughput.maxWrites)]
}

function ofAggregator(deploy: string, {state, isOurCode, codeBytes}: AggregatorPart): Found[] {
  if (state === 'Failed') return [problem('The function cannot run: its state in Lambda is Failed.', deploy)]
  if (isOurCode !== false) return []
  if (codeBytes < PLACEHOLDER_BYTES) return [problem('The function has no code yet, only a placeholder.', deploy)]
  return [note('The function runs different code than this zael version.', deploy)]
}

function ofMapping({id, state, stateReason, lastResult}: MappingPart): Found[] {
  const why = stateReason ? ` (${stateReason})` : ''
  const found: Found[] = []
  if (state === 'Disabled' || state === 'Disabling') {
    const enable = `aws lambda update-event-source-mapping --uuid ${id} --enabled`
    found.push(problem(`The mapping from the stream to the function is ${state}${why}.`, enable))
  } else if (state !== 'Enabled') found.push(note(`The mapping from the stream to the function is ${state}.`, null))
  if (lastResult?.startsWith('PROBLEM')) found.push(problem(`The mapping reports: ${lastResult}`, null))
  return found
}

const NO_MAPPING = 'No event source mapping from the stream to the function: usage is not counted.'

function ofTraffic(traffic: TrafficPart, oldMs: number, logs: string | null): Found[] {
  const {throttledReads, throttledWrites, aggregatorErrors, uncountedRecords, iteratorAgeMs} = traffic
  const found: Found[] = []
  if (iteratorAgeMs !== null && iteratorAgeMs > oldMs) {
    const seconds = formatCount(Math.round(iteratorAgeMs / 1000))
    found.push(problem(`The function is ${seconds} s behind the stream.`, 'zael doctor'))
  }
  if (throttledReads + throttledWrites > 0) {
    const figures = `${formatCount(throttledReads)} reads and ${formatCount(throttledWrites)} writes`
    found.push(note(`DynamoDB throttled ${figures} in the last hour.`, 'zael watch --once --sort pressure'))
  }
  if (aggregatorErrors > 0) {
    found.push(note(`The function failed ${formatCount(aggregatorErrors)} times in the last hour.`, null))
  }
  if (uncountedRecords > 0) {
    const records = formatPlural(uncountedRecords, 'record')
    found.push(note(`${records} could not be counted in the last hour.`, logs))
  }
  return found
}

function ofDeadLetters(stack: string, {queue, messages}: DeadLettersPart): Found[] {
  if (messages === 0) return []
  const batches = formatPlural(messages, 'batch', 'batches')
  const message = `${batches} of the stream failed permanently. See queue ${queue}.`
  return [problem(message, `zael aggregator dead-letters --stack ${stack}`)]
}

function ofAlarms(alarms: readonly AlarmPart[], wanted: readonly string[], rebuild: string): Found[] {
  const active = alarms.filter(({state}) => state === 'ALARM')
  const missing = wanted.filter(name => !alarms.some(alarm => alarm.name === name))
  return [
    ...active.map(({name, reason}) => problem(`Alarm ${name}${reason ? `: ${reason}` : ''}`, null)),
    ...missing.map(name => note(`Alarm ${name} is missing: its condition is not monitored.`, rebuild)),
  ]
}

/** Drift detection is requested explicitly, so every difference is a problem. Keeps protection turned on by hand. */
function ofDrift(drift: readonly DriftedResource[], repair: string): Found[] {
  const isProtected = drift.some(({properties}) =>
    properties.some(({path, actual}) => path === '/DeletionProtectionEnabled' && actual === 'true'),
  )
  const rebuild = isProtected && repair.startsWith('zael ') ? `${repair} --deletion-protection` : repair
  return drift.map(({logicalId, type, change, properties}) => {
    const name = `${logicalId} (${type})`
    if (change === 'modified')
      return problem(`${name} differs from the template: ${properties.map(({path}) => path).join(', ')}.`, rebuild)
    return problem(`${name} was deleted.`, type === 'AWS::DynamoDB::Table' ? LOST_TABLE_FIX : rebuild)
  })
}

function ofVersions(deploy: string, {schemaVersion, problem: refusal}: VersionPart): Found[] {
  if (refusal) return [problem(refusal.message, refusal.fix)]
  if (schemaVersion !== null) return []
  return [note('The table has no version record yet.', deploy)]
}

function problem(message: string, fix: string | null): Found {
  return {severity: 'problem', message, fix}
}

/** Another tool may have named the table differently. */
function noTable(stack: string, cloudFormation: StackPart | null): Found {
  const {TableName: table = stack} = cloudFormation?.outputs ?? {}
  if (table === stack) return problem('The table is missing.', LOST_TABLE_FIX)
  return problem(`The table of this stack has another name: "${table}".`, `zael status --stack ${table}`)
}

function note(message: string, fix: string | null): Found {
  return {severity: 'note', message, fix}
}

function batchWindowMs(stack: StackPart | null): number {
  const chosen = stack?.parameters.chosen.find(({name}) => name === 'StreamBatchWindow')?.value
  return Number(chosen ?? DEFAULT_PARAMETERS.StreamBatchWindow) * 1000
}

import type {DeepReadonly} from '../../core/deep-readonly.js'
import {ZaelError} from '../../core/errors.js'
import {TableMissing, ValidationFailed} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import type {Aws} from '../aws/clients.js'
import type {WaitOptions} from '../aws/send-change.js'
import {detectDrift} from '../stack/drift.js'
import {notOurTable, readStack} from '../stack/reader.js'
import {findingsOf} from './findings.js'
import {readAlarms, readTraffic} from './metrics.js'
import {alarmNames, assessHealth, type HealthParts, PARTS, type PartName} from './parts.js'
import {readAggregator, readDeadLetters, readMapping, readTablePart, readVersionPart, stackPart} from './read-parts.js'

interface HealthSources {
  readonly table: Table
  /** `undefined`: a local engine, which has only the table. */
  readonly aws: Aws | undefined
  readonly ourVersion: string
  readonly drift?: WaitOptions | undefined
}

const NO_SERVICES = {
  cloudFormation: null,
  aggregator: null,
  mapping: null,
  traffic: null,
  deadLetters: null,
  alarms: null,
}

export type StackHealth = DeepReadonly<Awaited<ReturnType<typeof gatherHealth>>>

/** Reports unreadable parts as unknown. Throws when the stack does not exist, or neither it nor its table is readable. */
export async function gatherHealth({table, aws, ourVersion, drift: wait}: HealthSources) {
  const unknown = new Map<PartName, ZaelError>()
  const tryRead = async <T>(part: PartName, read: () => Promise<T>): Promise<T | null> => {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
      unknown.set(part, error)
      return null
    }
  }

  const markUnknownLike = (part: PartName, source: PartName) => {
    const error = unknown.get(source)
    if (error) unknown.set(part, error)
  }

  const [deployed, tablePart] = await Promise.all([
    aws && tryRead('cloudFormation', () => readStack(aws, table.name)),
    tryRead('table', () => readTablePart(table)),
  ])
  const tableError = unknown.get('table')
  if (tableError instanceof TableMissing) {
    // A limiter's stack without its table is broken; any other stack of that name is not a limiter.
    if (!deployed || deployed.owner === 'other') throw tableError
    unknown.delete('table')
  } else if (tableError && (!deployed || !aws)) throw tableError

  const [services, versions, drift] = await Promise.all([
    aws ? readServices(aws) : NO_SERVICES,
    tablePart && tryRead('versions', () => readVersionPart(table, ourVersion)),
    aws && wait && deployed ? tryRead('drift', () => detectDrift(aws, deployed.name, wait)) : null,
  ])
  // The table has another key schema, so it contains no rate limiter records.
  if (unknown.get('versions') instanceof ValidationFailed) throw notOurTable(table.name)
  const parts: HealthParts = {...services, table: tablePart, versions, drift}
  if (wait && !deployed) markUnknownLike('drift', 'cloudFormation')
  const findings = findingsOf(table.name, parts, part => !unknown.has(part))
  const unread = PARTS.flatMap(part => {
    const error = unknown.get(part)
    return error ? [{part, code: error.code, reason: error.message, fix: error.hint ?? null}] : []
  })
  const region = aws ? await aws.region() : null
  return {stack: table.name, region, ...parts, unknown: unread, findings, isHealthy: assessHealth(findings, unread)}

  async function readServices(from: Aws): Promise<Omit<HealthParts, 'table' | 'versions' | 'drift'>> {
    // Both tools use this name by default.
    const functionName = deployed?.outputs.AggregatorFunctionName ?? `${table.name}-aggregator`
    const streamArn = tablePart?.streamArn
    const indexes = tablePart?.indexes.map(({name}) => name) ?? []
    const subject = {tableName: table.name, indexes, functionName}
    const [aggregator, mapping, traffic, alarms] = await Promise.all([
      tryRead('aggregator', () => readAggregator(from, functionName)),
      streamArn ? tryRead('mapping', () => readMapping(from, functionName, streamArn)) : null,
      tryRead('traffic', () => readTraffic(from, subject, table.clock())),
      deployed ? tryRead('alarms', () => readAlarms(from, alarmNames(deployed.outputs))) : null,
    ])
    const queueArn = mapping?.failureDestination ?? deployed?.outputs.AggregatorDLQArn
    const deadLetters =
      queueArn === undefined ? null : await tryRead('deadLetters', () => readDeadLetters(from, queueArn))
    // A part that is found through an unknown part is also unknown.
    markUnknownLike('alarms', 'cloudFormation')
    markUnknownLike('mapping', 'table')
    if (queueArn === undefined) markUnknownLike('deadLetters', 'mapping')
    return {cloudFormation: deployed ? stackPart(deployed) : null, aggregator, mapping, traffic, deadLetters, alarms}
  }
}

import {ZaelError} from '../../core/errors.js'
import {TableMissing} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import type {Aws} from '../aws/clients.js'
import {readStack} from '../stacks/reader.js'
import {readAggregator, readMapping} from './aggregator.js'
import {findingsOf, type HealthFinding} from './findings.js'
import {readAlarms, readDeadLetters, readTraffic} from './monitoring.js'
import {alarmNames, type HealthParts, PARTS, type PartName, type UnknownPart} from './parts.js'
import {stackPart} from './stack.js'
import {readTablePart, readVersionPart} from './table.js'
import {assessHealth} from './verdict.js'

/** How a stack is doing, as plain data. */
export interface StackHealth extends HealthParts {
  readonly stack: string
  /** `null`: a local engine. */
  readonly region: string | null
  readonly unknown: readonly UnknownPart[]
  readonly findings: readonly HealthFinding[]
  /** `null`: no problem was found, but some part is not known. */
  readonly isHealthy: boolean | null
}

/** Where to look. */
export interface HealthSources {
  readonly table: Table
  /** `undefined`: a local engine, which has a table and nothing around it. */
  readonly aws: Aws | undefined
  readonly ourVersion: string
}

const NOTHING_AROUND = {
  cloudFormation: null,
  aggregator: null,
  mapping: null,
  traffic: null,
  deadLetters: null,
  alarms: null,
}

/**
 * Looks at everything a stack has, and changes nothing. A part that cannot be read is told as unknown and does not keep
 * the others from being read. Throws when there is no such stack, or when neither it nor its table can be read.
 */
export async function gatherHealth({table, aws, ourVersion}: HealthSources): Promise<StackHealth> {
  const unknown = new Map<PartName, ZaelError>()
  const look = async <T>(part: PartName, work: () => Promise<T>): Promise<T | null> => {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
      unknown.set(part, error)
      return null
    }
  }

  const follow = (part: PartName, leader: PartName) => {
    const error = unknown.get(leader)
    if (error) unknown.set(part, error)
  }

  const [deployed, tablePart] = await Promise.all([
    aws && look('cloudFormation', () => readStack(aws, table.name)),
    look('table', () => readTablePart(table)),
  ])
  const tableError = unknown.get('table')
  if (tableError instanceof TableMissing) {
    // A stack of ours without its table is a broken one; anything else of that name is somebody else's.
    if (!deployed || deployed.owner === 'other') throw tableError
    unknown.delete('table')
  } else if (tableError && (!deployed || !aws)) throw tableError

  const [around, versions] = await Promise.all([
    aws ? lookAround() : NOTHING_AROUND,
    tablePart && look('versions', () => readVersionPart(table, ourVersion)),
  ])
  const parts: HealthParts = {...around, table: tablePart, versions}
  const findings = findingsOf(table.name, parts, part => !unknown.has(part))
  const unseen = PARTS.flatMap(part => unknownPart(part, unknown.get(part)))
  const region = aws ? await aws.region() : null
  return {stack: table.name, region, ...parts, unknown: unseen, findings, isHealthy: assessHealth(findings, unseen)}

  async function lookAround(): Promise<Omit<HealthParts, 'table' | 'versions'>> {
    const from = aws as Aws
    // The name that both tools give it, where no stack says otherwise.
    const functionName = deployed?.outputs.AggregatorFunctionName ?? `${table.name}-aggregator`
    const streamArn = tablePart?.streamArn
    const indexes = tablePart?.indexes.map(({name}) => name) ?? []
    const subject = {tableName: table.name, indexes, functionName}
    const [aggregator, mapping, traffic, alarms] = await Promise.all([
      look('aggregator', () => readAggregator(from, functionName)),
      streamArn ? look('mapping', () => readMapping(from, functionName, streamArn)) : null,
      look('traffic', () => readTraffic(from, subject, table.clock())),
      deployed ? look('alarms', () => readAlarms(from, alarmNames(deployed.outputs))) : null,
    ])
    const queueArn = mapping?.failureDestination ?? deployed?.outputs.AggregatorDLQArn
    const deadLetters = queueArn === undefined ? null : await look('deadLetters', () => readDeadLetters(from, queueArn))
    // What only an unknown part could have led to is unknown as well.
    follow('alarms', 'cloudFormation')
    follow('mapping', 'table')
    if (queueArn === undefined) follow('deadLetters', 'mapping')
    return {cloudFormation: deployed ? stackPart(deployed) : null, aggregator, mapping, traffic, deadLetters, alarms}
  }
}

function unknownPart(part: PartName, error: ZaelError | undefined): UnknownPart[] {
  return error ? [{part, code: error.code, reason: error.message, fix: error.hint ?? null}] : []
}

import type {DriftedResource} from '../stack/drift.js'
import type {StackOwner, TableThroughput} from '../stack/reader.js'

export interface StackPart {
  readonly status: string
  readonly statusReason: string | null
  readonly role: string | null
  readonly terminationProtection: boolean
  readonly owner: StackOwner
  /** From the tags: versions of the tool at the last deployment and of the table's layout. */
  readonly version: string | null
  readonly schemaVersion: string | null
  /** ISO 8601, UTC. */
  readonly createdAt: string | null
  readonly updatedAt: string | null
  readonly parameters: ParameterDrift
  readonly outputs: Readonly<Record<string, string>>
}

export interface ParameterDrift {
  /** Values that differ from the template's default. */
  readonly chosen: ReadonlyArray<{readonly name: string; readonly value: string; readonly default: string | null}>
  /** In the template, but not in the stack. */
  readonly missing: readonly string[]
  /** In the stack, but not in the template. */
  readonly unknown: readonly string[]
}

/** `expiry` and `pointInTimeRecovery` are `null` when they could not be read. */
export interface TablePart {
  readonly status: string
  /** DynamoDB updates `items` and `bytes` about every six hours. */
  readonly items: number
  readonly bytes: number
  readonly createdAt: string | null
  /** View type; `null`: no stream. */
  readonly stream: string | null
  readonly streamArn: string | null
  readonly expiry: boolean | null
  readonly pointInTimeRecovery: boolean | null
  readonly deletionProtection: boolean
  readonly throughput: TableThroughput
  readonly replicas: readonly string[]
  readonly indexes: ReadonlyArray<{readonly name: string; readonly status: string; readonly projection: string}>
}

export interface AggregatorPart {
  readonly name: string
  readonly state: string
  readonly runtime: string | null
  readonly memoryMb: number | null
  readonly codeBytes: number
  readonly codeSha256: string | null
  /** `null`: a function of the Python tool. */
  readonly isOurCode: boolean | null
  readonly version: string | null
}

/** The event source mapping; its state is independent of the stream's (C-15). */
export interface MappingPart {
  readonly id: string
  readonly state: string
  readonly stateReason: string | null
  readonly lastResult: string | null
  readonly filters: readonly string[]
  /** ARN; receives batches that failed permanently. */
  readonly failureDestination: string | null
}

/** Metrics of the last hour. */
export interface TrafficPart {
  /** Includes the table's indexes. */
  readonly throttledReads: number
  readonly throttledWrites: number
  readonly aggregatorErrors: number
  /** Stream records that no retry could have counted. */
  readonly uncountedRecords: number
  readonly refusedRequests: number
  /** Age of the last record when the function received it; `null`: no data. */
  readonly iteratorAgeMs: number | null
}

export interface DeadLettersPart {
  readonly queue: string
  readonly messages: number
}

export interface AlarmPart {
  readonly name: string
  readonly state: string
  readonly reason: string | null
  readonly notifies: boolean
}

export interface VersionPart {
  readonly schemaVersion: string | null
  readonly lambdaVersion: string | null
  readonly clientMinVersion: string | null
  /** The table's records require at least this release of zae-limiter. */
  readonly release: string | null
  readonly updatedBy: string | null
  readonly isMigrationDue: boolean
  readonly problem: {readonly message: string; readonly fix: string | null} | null
}

/** `null`: the part does not exist, or could not be read if `unknown` lists it. */
export interface HealthParts {
  readonly cloudFormation: StackPart | null
  readonly table: TablePart | null
  readonly aggregator: AggregatorPart | null
  readonly mapping: MappingPart | null
  readonly traffic: TrafficPart | null
  readonly deadLetters: DeadLettersPart | null
  readonly alarms: readonly AlarmPart[] | null
  readonly versions: VersionPart | null
  /** `null` unless requested. */
  readonly drift: readonly DriftedResource[] | null
}

export type PartName = keyof HealthParts

/** In output order. */
export const PARTS: readonly PartName[] = [
  'cloudFormation',
  'table',
  'aggregator',
  'mapping',
  'traffic',
  'deadLetters',
  'alarms',
  'versions',
  'drift',
]

export interface UnknownPart {
  readonly part: PartName
  readonly code: string
  readonly reason: string
  readonly fix: string | null
}

/** The templates of both tools export the name of every alarm. */
export function alarmNames(outputs: StackPart['outputs']): string[] {
  return Object.entries(outputs).flatMap(([name, value]) => (name.endsWith('AlarmName') ? value : []))
}

export interface HealthFinding {
  readonly severity: 'problem' | 'note'
  readonly part: PartName
  readonly message: string
  readonly fix: string | null
}

/** Lag beyond the batch window; the same as in the template's alarm. */
export const OLD_RECORD_MS = 60_000

export function isProblem({severity}: HealthFinding): boolean {
  return severity === 'problem'
}

const DENIED = new Set(['aws.denied', 'dynamo.denied'])

/** `null`: no problem was found, but some parts could not be read. */
export function assessHealth(findings: readonly HealthFinding[], unknown: readonly UnknownPart[]): boolean | null {
  if (findings.some(isProblem)) return false
  return unknown.length === 0 ? true : null
}

/** Whether `zael status` exits with 0: no problem, and only denied parts are unknown. */
export function passesCheck(health: {
  readonly isHealthy: boolean | null
  readonly unknown: readonly UnknownPart[]
}): boolean {
  return health.isHealthy ?? health.unknown.every(({code}) => DENIED.has(code))
}

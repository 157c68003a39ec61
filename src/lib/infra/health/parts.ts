import type {DriftedResource} from '../stack/drift.js'
import type {StackOwner, TableThroughput} from '../stack/reader.js'

export interface StackPart {
  readonly status: string
  readonly statusReason: string | null
  /** ARN of the service role of CloudFormation; `null`: it acts with the permissions of its caller. */
  readonly role: string | null
  readonly terminationProtection: boolean
  /** The tool that deployed it, from the tags. */
  readonly owner: StackOwner
  /** Versions of the tool at the last deployment and of the table's layout, from the tags. */
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
  /** Parameters of the template that the stack does not have yet. */
  readonly missing: readonly string[]
  /** Parameters of the stack that the template does not have. */
  readonly unknown: readonly string[]
}

/** The table. `expiry` and `pointInTimeRecovery` are `null` when they could not be read. */
export interface TablePart {
  readonly status: string
  /** Item count and size, which DynamoDB updates about every six hours. */
  readonly items: number
  readonly bytes: number
  readonly createdAt: string | null
  /** View type of the stream; `null`: there is no stream. */
  readonly stream: string | null
  readonly streamArn: string | null
  readonly expiry: boolean | null
  readonly pointInTimeRecovery: boolean | null
  readonly deletionProtection: boolean
  readonly throughput: TableThroughput
  /** Regions that DynamoDB copies the table to. */
  readonly replicas: readonly string[]
  readonly indexes: ReadonlyArray<{readonly name: string; readonly status: string; readonly projection: string}>
}

export interface AggregatorPart {
  readonly name: string
  readonly state: string
  readonly runtime: string | null
  readonly memoryMb: number | null
  readonly codeBytes: number
  /** SHA-256 of the deployed package in base64. */
  readonly codeSha256: string | null
  /** Whether it is the package of this zael; `null` for a function of the Python tool. */
  readonly isOurCode: boolean | null
  readonly version: string | null
}

/** The event source mapping between stream and function; its state is independent of the stream's (C-15). */
export interface MappingPart {
  readonly id: string
  readonly state: string
  readonly stateReason: string | null
  readonly lastResult: string | null
  readonly filters: readonly string[]
  /** ARN of the destination for batches that failed permanently. */
  readonly failureDestination: string | null
}

/** Metrics of the last hour. */
export interface TrafficPart {
  /** Throttled requests to the table and its indexes. */
  readonly throttledReads: number
  readonly throttledWrites: number
  readonly aggregatorErrors: number
  /** Stream records whose usage was not counted because no retry could have counted it. */
  readonly uncountedRecords: number
  /** Requests that limiters of zael refused. */
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
  /** OK, ALARM or INSUFFICIENT_DATA. */
  readonly state: string
  readonly reason: string | null
  /** Whether it has actions, such as a notification. */
  readonly notifies: boolean
}

export interface VersionPart {
  readonly schemaVersion: string | null
  readonly lambdaVersion: string | null
  readonly clientMinVersion: string | null
  /** The release of zae-limiter whose records the table has at least. */
  readonly release: string | null
  readonly updatedBy: string | null
  readonly isMigrationDue: boolean
  readonly problem: {readonly message: string; readonly fix: string | null} | null
}

/** All parts of a stack. `null`: it does not exist, or could not be read if `unknown` lists it. */
export interface HealthParts {
  readonly cloudFormation: StackPart | null
  readonly table: TablePart | null
  readonly aggregator: AggregatorPart | null
  readonly mapping: MappingPart | null
  readonly traffic: TrafficPart | null
  readonly deadLetters: DeadLettersPart | null
  readonly alarms: readonly AlarmPart[] | null
  readonly versions: VersionPart | null
  /** What differs from the template; `null` unless it was asked for. */
  readonly drift: readonly DriftedResource[] | null
}

export type PartName = keyof HealthParts

/** All parts, in output order. */
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
  /** Code of the error, such as `aws.denied`. */
  readonly code: string
  readonly reason: string
  readonly fix: string | null
}

/** The templates of both tools export the name of every alarm. */
export function alarmNames(outputs: StackPart['outputs']): string[] {
  return Object.entries(outputs).flatMap(([name, value]) => (name.endsWith('AlarmName') ? value : []))
}

import type {StackOwner} from '../stacks/reader.js'

/** What CloudFormation says. */
export interface StackPart {
  readonly status: string
  readonly statusReason: string | null
  /** Who deployed it, by its tags. */
  readonly owner: StackOwner
  /** Version of the tool at the last deploy, and of the table's layout, from the tags. */
  readonly version: string | null
  readonly schemaVersion: string | null
  /** ISO 8601, UTC. */
  readonly createdAt: string | null
  readonly updatedAt: string | null
  readonly parameters: ParameterDrift
  /** Names, ARNs and addresses that the stack hands out, policies among them. */
  readonly outputs: Readonly<Record<string, string>>
}

/** The parameters of a stack against those of this package's template. */
export interface ParameterDrift {
  /** Values that are not the template's default: somebody chose them. */
  readonly chosen: ReadonlyArray<{readonly name: string; readonly value: string; readonly default: string | null}>
  /** Parameters of the template that the stack does not have yet. */
  readonly missing: readonly string[]
  /** Parameters of the stack that the template does not have, or no longer. */
  readonly unknown: readonly string[]
}

/** The table itself. `null` in a switch: could not be asked. */
export interface TablePart {
  readonly status: string
  /** Figures that DynamoDB brings up to date every six hours or so. */
  readonly items: number
  readonly bytes: number
  readonly createdAt: string | null
  /** What the stream tells of each change; `null`: there is no stream. */
  readonly stream: string | null
  readonly streamArn: string | null
  readonly expiry: boolean | null
  readonly pointInTimeRecovery: boolean | null
  readonly deletionProtection: boolean
  readonly indexes: ReadonlyArray<{readonly name: string; readonly status: string; readonly projection: string}>
}

/** The function that follows the stream. */
export interface AggregatorPart {
  readonly name: string
  readonly state: string
  readonly runtime: string | null
  readonly memoryMb: number | null
  readonly codeBytes: number
  /** SHA-256 of the deployed package in base64. */
  readonly codeSha256: string | null
  /** Whether that is the package in this zael; `null` for a function of another tool. */
  readonly isOurCode: boolean | null
  readonly version: string | null
}

/** What carries the stream to the function; its state is its own, not that of the stream (C-15). */
export interface MappingPart {
  readonly id: string
  readonly state: string
  readonly stateReason: string | null
  readonly lastResult: string | null
  readonly filters: readonly string[]
  /** Where batches go that failed for good; an ARN. */
  readonly failureDestination: string | null
}

/** Figures of the last hour; `null`: there are none. */
export interface TrafficPart {
  /** Requests to the table and its indexes that DynamoDB refused for their rate. */
  readonly throttledReads: number
  readonly throttledWrites: number
  readonly aggregatorErrors: number
  /** How old the last record was when the function got it. */
  readonly iteratorAgeMs: number | null
}

/** Batches that failed for good. */
export interface DeadLettersPart {
  readonly queue: string
  readonly messages: number
}

export interface AlarmPart {
  readonly name: string
  /** OK, ALARM or INSUFFICIENT_DATA. */
  readonly state: string
  readonly reason: string | null
  /** Whether anybody is told. */
  readonly notifies: boolean
}

/** Which layout the table has, and whether this zael may work on it. */
export interface VersionPart {
  readonly schemaVersion: string | null
  readonly lambdaVersion: string | null
  readonly clientMinVersion: string | null
  readonly updatedBy: string | null
  readonly isMigrationDue: boolean
  /** Why this zael must not work on the table, and what to do. */
  readonly problem: {readonly message: string; readonly fix: string | null} | null
}

/** Everything that is looked at. `null`: it is not there, unless `unknown` says that nobody could tell. */
export interface HealthParts {
  readonly cloudFormation: StackPart | null
  readonly table: TablePart | null
  readonly aggregator: AggregatorPart | null
  readonly mapping: MappingPart | null
  readonly traffic: TrafficPart | null
  readonly deadLetters: DeadLettersPart | null
  readonly alarms: readonly AlarmPart[] | null
  readonly versions: VersionPart | null
}

export type PartName = keyof HealthParts

/** All parts, in the order in which they are told. */
export const PARTS: readonly PartName[] = [
  'cloudFormation',
  'table',
  'aggregator',
  'mapping',
  'traffic',
  'deadLetters',
  'alarms',
  'versions',
]

/** A part that could not be looked at, why, and what to do about it. */
export interface UnknownPart {
  readonly part: PartName
  /** Code of the error, such as `aws.denied`. */
  readonly code: string
  readonly reason: string
  readonly fix: string | null
}

/** Both tools' templates hand out the name of every alarm. */
export function alarmNames(outputs: StackPart['outputs']): string[] {
  return Object.entries(outputs).flatMap(([name, value]) => (name.endsWith('AlarmName') ? value : []))
}

/** The tag of a name, whichever tool wrote it. */
export function tagOf(tags: Readonly<Record<string, string>>, name: string): string | null {
  return tags[`zael:${name}`] ?? tags[`zae-limiter:${name}`] ?? null
}

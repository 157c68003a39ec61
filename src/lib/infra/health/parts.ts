import type {DeepReadonly} from '../../core/deep-readonly.js'
import type {DriftedResource} from '../stack/drift.js'
import type {readAlarms, readTraffic} from './metrics.js'
import type {
  readAggregator,
  readDeadLetters,
  readMapping,
  readTablePart,
  readVersionPart,
  stackPart,
} from './read-parts.js'

type Read<F extends (...args: never[]) => unknown> = DeepReadonly<NonNullable<Awaited<ReturnType<F>>>>

export type StackPart = Read<typeof stackPart>
export type TablePart = Read<typeof readTablePart>
export type AggregatorPart = Read<typeof readAggregator>
export type MappingPart = Read<typeof readMapping>
export type TrafficPart = Read<typeof readTraffic>
export type DeadLettersPart = Read<typeof readDeadLetters>
export type AlarmPart = Read<typeof readAlarms>[number]
export type VersionPart = Read<typeof readVersionPart>

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

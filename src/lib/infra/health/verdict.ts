import type {PartName, UnknownPart} from './parts.js'

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

import type {PartName, UnknownPart} from './parts.js'

/** A finding about a stack. A problem makes it degraded, a note does not. */
export interface HealthFinding {
  readonly severity: 'problem' | 'note'
  readonly part: PartName
  readonly message: string
  readonly fix: string | null
}

/** Lag in ms, beyond the batch window, that counts as a problem; the same as in the template's alarm. */
export const OLD_RECORD_MS = 60_000

export function isProblem({severity}: HealthFinding): boolean {
  return severity === 'problem'
}

/** Errors about missing permissions: they do not tell anything about the health of the stack. */
const DENIED = new Set(['aws.denied', 'dynamo.denied'])

/** Whether a stack is healthy; `null`: no problem was found, but some parts could not be read. */
export function assessHealth(findings: readonly HealthFinding[], unknown: readonly UnknownPart[]): boolean | null {
  if (findings.some(isProblem)) return false
  return unknown.length === 0 ? true : null
}

/** Whether `zael status` exits with 0: there is no problem, and all parts that the caller may read have answered. */
export function passesCheck(health: {
  readonly isHealthy: boolean | null
  readonly unknown: readonly UnknownPart[]
}): boolean {
  return health.isHealthy ?? health.unknown.every(({code}) => DENIED.has(code))
}

import {type HealthFinding, isProblem} from './findings.js'
import type {UnknownPart} from './parts.js'

/** Refusals for want of a permission: what somebody may not see says nothing about the stack. */
const DENIED = new Set(['aws.denied', 'dynamo.denied'])

/** Whether a stack is well; `null`: no problem was found, but not everything could be looked at. */
export function assessHealth(findings: readonly HealthFinding[], unknown: readonly UnknownPart[]): boolean | null {
  if (findings.some(isProblem)) return false
  return unknown.length === 0 ? true : null
}

/** Whether a script may go on: nothing is wrong, and whatever may be read has answered. */
export function passesCheck(health: {
  readonly isHealthy: boolean | null
  readonly unknown: readonly UnknownPart[]
}): boolean {
  return health.isHealthy ?? health.unknown.every(({code}) => DENIED.has(code))
}

import type {Amounts} from '../core/bucket.js'

/** Which requests fit into the balances together, in the order they came; the others are left over one by one. */
export function chooseFitting<T extends {readonly amounts: Amounts}>(
  requests: readonly T[],
  tokensMilli: ReadonlyMap<string, bigint>,
): {fitting: T[]; others: T[]; left: Map<string, bigint>} {
  const left = new Map(tokensMilli)
  const fitting: T[] = []
  const others: T[] = []
  for (const request of requests) {
    const entries = [...request.amounts]
    if (entries.every(([name, milli]) => (left.get(name) ?? 0n) >= milli)) {
      for (const [name, milli] of entries) left.set(name, (left.get(name) ?? 0n) - milli)
      fitting.push(request)
    } else others.push(request)
  }
  return {fitting, others, left}
}

/** How many requests several tickets or corrections stand for. */
export function requestsOf(tickets: Iterable<{readonly requests: number}>): number {
  let sum = 0
  for (const {requests} of tickets) sum += requests
  return sum
}

/** The sum of what several requests ask for, or of several corrections. */
export function total(requests: Iterable<{readonly amounts: Amounts}>): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const {amounts} of requests) for (const [name, milli] of amounts) sum.set(name, (sum.get(name) ?? 0n) + milli)
  return sum
}

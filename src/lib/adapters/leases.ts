import type {Lease} from '../limiter/lease.js'

const leases = new WeakMap<object, Lease>()

/** Remembers the lease of a request, under every object by which its handler knows the request. */
export function keepLease(lease: Lease, ...requests: readonly object[]): void {
  for (const request of requests) leases.set(request, lease)
}

/**
 * The lease of a request that an adapter has admitted: to adjust what is charged once it is known, also while the answer
 * is streamed. `undefined` for a request that was skipped. Where several adapters guard one request, that of the last.
 */
export function leaseOf(request: object): Lease | undefined {
  return leases.get(request)
}

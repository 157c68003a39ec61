/**
 * How long softness or a bypass lasts without being confirmed by the configuration, in ms. A bucket that a change of the
 * configuration has missed follows it after this time at the latest; other clients use the same time.
 */
export const STAMP_MS = 54_000

/** Requests renew a bypass that ends within this time, in ms: so it does not run out while it is configured and used. */
const BYPASS_RENEWAL_MS = 15_000

/** A bucket that may be bypassed. */
export interface Bypassable {
  /**
   * Present where limits are bypassed: every request is admitted and counted, no tokens are taken. Until this instant, in
   * epoch ms; then the next request asks the configuration. 0 where the stored instant cannot be read.
   */
  readonly bypassUntilMs?: number | undefined
}

/** Whether a bucket is bypassed at an instant. */
export function isBypassedAt({bypassUntilMs}: Bypassable, atMs: number): boolean {
  return bypassUntilMs !== undefined && bypassUntilMs > atMs
}

/** Whether the next request has to renew the bypass of a bucket, or to find out that it is over. */
export function isRenewalDue(bucket: Bypassable, nowMs: number): boolean {
  return !isBypassedAt(bucket, nowMs + BYPASS_RENEWAL_MS)
}

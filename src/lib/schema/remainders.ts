import type {BucketState} from '../core/bucket.js'

/**
 * Fractions of a millitoken that limits have earned at the refill instant, spelled `<rf>|name:remainder/period,…`. Other
 * clients ignore the attribute; when one of them moves `rf`, the tag no longer matches and the fractions are void, so
 * nothing can be credited twice.
 */
export const REMAINDERS = 'rfr'

/** `undefined` when there is nothing to carry: the attribute is then left out or removed. */
export function encodeRemainders(state: BucketState): string | undefined {
  const parts: string[] = []
  for (const [name, limit] of state.limits) {
    if (limit.remainder > 0n) parts.push(`${name}:${limit.remainder}/${limit.refillPeriodMs}`)
  }
  return parts.length === 0 ? undefined : `${state.refilledAtMs}|${parts.join(',')}`
}

/** What is still valid at `refilledAtMs`; anything malformed counts as nothing. */
export function decodeRemainders(
  text: string | undefined,
  refilledAtMs: number,
): Map<string, {remainder: bigint; refillPeriodMs: number}> {
  const remainders = new Map<string, {remainder: bigint; refillPeriodMs: number}>()
  const [tag, list = ''] = text?.split('|') ?? []
  if (tag !== String(refilledAtMs)) return remainders
  for (const part of list.split(',')) {
    const match = /^(.+):(\d+)\/(\d+)$/.exec(part)
    if (!match) continue
    const remainder = BigInt(match[2] as string)
    const refillPeriodMs = Number(match[3])
    if (remainder < BigInt(refillPeriodMs)) remainders.set(match[1] as string, {remainder, refillPeriodMs})
  }
  return remainders
}

import type {QuotaPeriod} from '../core/buckets/kind-refill.js'
import {type Item, readString} from './attribute-value.js'
import {attributes} from './attributes.js'
import {parseItemKey} from './keys.js'

/** Tokens that a lease or run took from one limit of one bucket item. */
export interface ReservedTokens {
  readonly entity: string
  readonly resource: string
  readonly shard: number
  /** The bucket that gave them: one created or reset since did not. */
  readonly incarnation: string | undefined
  readonly limit: string
  readonly milli: bigint
  /** Of a quota. Absent for a rate. */
  readonly period?: QuotaPeriod | undefined
}

/** Tokens of a lease that come back if its process dies before the lease ends. */
export interface Reservation {
  readonly namespace: string
  readonly holder: string
  readonly id: string
  readonly tokens: readonly ReservedTokens[]
  /** The lease has settled them: nobody may return them any more. */
  readonly isEnded: boolean
  /** Others have returned these of `tokens`. `undefined`: not returned. */
  readonly returned: readonly ReservedTokens[] | undefined
}

const names = attributes.reservation

/** Two days, longer than the record of a dead holder. Tokens of an expired record stay charged. */
const OPEN_SECONDS = 2 * 86_400

/** An ended reservation outlasts every attempt to store it that is still under way. */
const ENDED_SECONDS = 3600

/** Epoch seconds. */
export const reservationExpiry = (nowMs: number, isEnded: boolean): number =>
  Math.floor(nowMs / 1000) + (isEnded ? ENDED_SECONDS : OPEN_SECONDS)

export const spellReserved = (tokens: readonly ReservedTokens[]): string =>
  JSON.stringify(tokens.map(({milli, ...rest}) => ({...rest, milli: milli.toString()})))

/** Positions in the reservation's `tokens`. */
export const spellReturned = (positions: readonly number[]): string => JSON.stringify(positions)

/** `undefined`: no reservation, or one that cannot be read, so that it stays charged. */
export function decodeReservation(item: Item): Reservation | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'reservation') return undefined
  const {namespace, holder, id} = key
  try {
    const stored: (Omit<ReservedTokens, 'milli'> & {milli: string})[] = JSON.parse(
      readString(item, names.tokens) ?? '[]',
    )
    const tokens = stored.map(each => ({...each, milli: BigInt(each.milli)}))
    const text = readString(item, names.returned)
    const positions: readonly number[] | undefined = text === undefined ? undefined : JSON.parse(text)
    const returned = positions && tokens.filter((_, at) => positions.includes(at))
    return {namespace, holder, id, tokens, isEnded: names.ended in item, returned}
  } catch {
    return undefined
  }
}

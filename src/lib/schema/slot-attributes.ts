import {type Item, n, readNumber, readString, s} from './attribute-value.js'
import {attributes} from './attributes.js'

/** An in-flight limit as a bucket stores it, in whole slots. */
export interface SlotLimit {
  readonly capacity: number
  /** Negative after the capacity was lowered below the slots in use. Only shard 0 has it; elsewhere 0. */
  readonly free: number
}

/** The slots that one holder has in this bucket. */
export interface StoredAccount {
  /** As stored. Every write of the holder changes it, so a write that requires it is applied at most once. */
  readonly text: string
  readonly held: ReadonlyMap<string, number>
}

/** `free + Σ held = capacity` for every limit after every write (S12). */
export interface BucketSlots {
  readonly limits: ReadonlyMap<string, SlotLimit>
  /** By holder id. Only in shard 0. */
  readonly accounts: ReadonlyMap<string, StoredAccount>
}

const {capacity, free, account} = attributes.slots

export const slotAttribute = {
  capacity: (limit: string): string => `${capacity}_${limit}`,
  free: (limit: string): string => `${free}_${limit}`,
  account: (holder: string): string => `${account}_${holder}`,
}

const [CAPACITY_PREFIX, FREE_PREFIX, ACCOUNT_PREFIX] = [
  slotAttribute.capacity(''),
  slotAttribute.free(''),
  slotAttribute.account(''),
]

export const isSlotAttribute = (attribute: string): boolean =>
  attribute.startsWith(CAPACITY_PREFIX) || attribute.startsWith(FREE_PREFIX) || attribute.startsWith(ACCOUNT_PREFIX)

/** Other clients copy all attributes into new shards, so accounts and free slots count only in shard 0. */
export function decodeSlots(item: Item, shard: number): BucketSlots | undefined {
  const limits = new Map<string, SlotLimit>()
  const accounts = new Map<string, StoredAccount>()
  for (const attribute of Object.keys(item)) {
    if (attribute.startsWith(CAPACITY_PREFIX)) {
      const name = attribute.slice(CAPACITY_PREFIX.length)
      const stored = shard === 0 ? (readNumber(item, slotAttribute.free(name)) ?? 0) : 0
      limits.set(name, {capacity: readNumber(item, attribute) ?? 0, free: stored})
    } else if (shard === 0 && attribute.startsWith(ACCOUNT_PREFIX)) {
      const text = readString(item, attribute)
      if (text !== undefined) accounts.set(attribute.slice(ACCOUNT_PREFIX.length), {text, held: heldIn(text)})
    }
  }
  return limits.size + accounts.size > 0 ? {limits, accounts} : undefined
}

export function encodeSlots({limits, accounts}: BucketSlots, shard: number): Item {
  const item: Item = {}
  for (const [name, limit] of limits) {
    item[slotAttribute.capacity(name)] = n(limit.capacity)
    if (shard === 0) item[slotAttribute.free(name)] = n(limit.free)
  }
  if (shard === 0) for (const [holder, {text}] of accounts) item[slotAttribute.account(holder)] = s(text)
  return item
}

/** `<number>.<nonce>`, then the slots: `3f.k2Xw parallel:2,batch:1`. */
export function spellAccount(number: number, nonce: string, held: ReadonlyMap<string, number>): string {
  const slots = [...held].filter(([, count]) => count > 0).map(([name, count]) => `${name}:${count}`)
  return `${number.toString(36)}.${nonce}${slots.length > 0 ? ` ${slots.sort().join(',')}` : ''}`
}

function heldIn(text: string): ReadonlyMap<string, number> {
  const held = new Map<string, number>()
  for (const part of (text.split(' ')[1] ?? '').split(',')) {
    const colon = part.lastIndexOf(':')
    const count = Number(part.slice(colon + 1))
    if (colon > 0 && Number.isSafeInteger(count) && count > 0) held.set(part.slice(0, colon), count)
  }
  return held
}

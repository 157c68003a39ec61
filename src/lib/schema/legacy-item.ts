import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, readExpiry, readString, s} from './attribute-value.js'
import {LITERAL_DEFAULT, legacyVersionKey, partitionPrefix, splitNamespace} from './legacy-key.js'

const PREFIXED_KEYS = ['PK', 'GSI1PK', 'GSI2PK', 'GSI3PK'] as const

/** Converts records whose format did not change to the current layout. Current decoders can read the result. */
export function modernise(item: Item, namespace: string): Item {
  const flat = foldBurst(flatten(item))
  const {namespace: present} = splitNamespace(readString(flat, 'PK') ?? '')
  if (present !== undefined) return flat
  const target = readString(flat, 'SK') === legacyVersionKey.SK ? REGISTRY_NAMESPACE : namespace
  const moved = {...flat}
  for (const name of PREFIXED_KEYS) {
    const value = readString(flat, name)
    if (value !== undefined) moved[name] = s(`${partitionPrefix(target)}${value}`)
  }
  return {...moved, GSI4PK: s(target), GSI4SK: s(readString(moved, 'PK') ?? '')}
}

/** Also replaces the literal id `default` by `namespace`. */
export function moderniseInto(namespace: string, item: Item): Item {
  const literal = partitionPrefix(LITERAL_DEFAULT)
  const bare = {...item}
  for (const name of PREFIXED_KEYS) {
    const value = readString(item, name)
    if (value?.startsWith(literal)) bare[name] = s(value.slice(literal.length))
  }
  return modernise(bare, namespace)
}

/** Until 0.6.0 most attributes were in a map called `data`. */
export const isNested = (item: Item): boolean => item.data !== undefined && 'M' in item.data

/** Top-level attributes win. */
export function flatten(item: Item): Item {
  if (!item.data || !('M' in item.data)) return item
  const {data: _, ...rest} = item
  return {...item.data.M, ...rest}
}

/** Until 0.10.0 a limit had a burst beside its capacity, and the burst was the ceiling. */
export function foldBurst(item: Item): Item {
  const bursts = Object.entries(item).filter(([name]) => name.endsWith('_bx') && /^[bl]_.+_bx$/.test(name))
  if (bursts.length === 0) return item
  const folded = {...item}
  for (const [name, value] of bursts) {
    const capacity = name.replace(/_bx$/, '_cp')
    delete folded[name]
    if (capacity in item) folded[capacity] = value
  }
  return folded
}

export const readTtlSeconds = (item: Item): number | undefined => readExpiry(flatten(item), 'ttl')

export function isExpiredItem(item: Item, nowMs: number): boolean {
  const ttlSeconds = readTtlSeconds(item)
  return ttlSeconds !== undefined && ttlSeconds <= Math.floor(nowMs / 1000)
}

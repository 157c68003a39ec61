import {REGISTRY_NAMESPACE} from '../../core/names.js'
import {type Item, s} from '../attribute-value.js'
import {readString} from '../read.js'
import {splitNamespace} from './key.js'

const PREFIXED_KEYS = ['PK', 'GSI1PK', 'GSI2PK', 'GSI3PK'] as const

/**
 * An item of an older layout as today's would spell it, for the records whose shape stayed (entities, configurations,
 * audit events, usage, registries, version): nested data lifted, keys put into `namespace`, burst folded into capacity.
 * The ordinary decoders read the result.
 */
export function modernise(item: Item, namespace: string): Item {
  const flat = foldBurst(flatten(item))
  const {namespace: present} = splitNamespace(readString(flat, 'PK') ?? '')
  if (present !== undefined) return flat
  const target = readString(flat, 'SK') === '#VERSION' ? REGISTRY_NAMESPACE : namespace
  const moved = {...flat}
  for (const name of PREFIXED_KEYS) {
    const value = readString(flat, name)
    if (value !== undefined) moved[name] = s(`${target}/${value}`)
  }
  return {...moved, GSI4PK: s(target), GSI4SK: s(readString(moved, 'PK') ?? '')}
}

/** Until 0.6.0 most attributes lay in a map called `data`; what already is at the top wins. */
export function flatten(item: Item): Item {
  if (!item.data || !('M' in item.data)) return item
  const {data: _, ...rest} = item
  return {...item.data.M, ...rest}
}

/** Until 0.10.0 a limit had a burst beside its capacity, and the burst was the ceiling: it is today's capacity. */
export function foldBurst(item: Item): Item {
  const folded = {...item}
  for (const [name, value] of Object.entries(item)) {
    const limit = /^([bl]_.+)_bx$/.exec(name)?.[1]
    if (limit === undefined) continue
    delete folded[name]
    if (`${limit}_cp` in item) folded[`${limit}_cp`] = value
  }
  return folded
}

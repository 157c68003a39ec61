import type {AttributeValue, Item} from '../../../src/lib/schema/attribute-value.js'
import type {Path} from './expression.js'
import {copyValue} from './values.js'

/** The requested parts of an item; `true` for a whole value. */
type Wanted = true | Map<string | number, Wanted>

/** The values at some paths, in the shape of the item; list elements move together. */
export function projection(item: Item, paths: readonly Path[]): Item {
  const wanted: Wanted = new Map()
  for (const path of paths) want(wanted, path)
  const found = partOf({M: item}, wanted)
  return found && 'M' in found ? found.M : {}
}

function want(tree: Map<string | number, Wanted>, [first, ...rest]: Path): void {
  if (first === undefined) return
  const known = tree.get(first)
  if (rest.length === 0 || known === true) {
    tree.set(first, true)
    return
  }
  const inner = known ?? new Map<string | number, Wanted>()
  tree.set(first, inner)
  want(inner, rest)
}

function partOf(value: AttributeValue | undefined, wanted: Wanted): AttributeValue | undefined {
  if (value === undefined) return undefined
  if (wanted === true) return copyValue(value)
  if ('M' in value) {
    const parts = [...wanted].map(([name, inner]) => [name, partOf(value.M[name], inner)] as const)
    const found = parts.filter(([, part]) => part !== undefined)
    return found.length > 0 ? {M: Object.fromEntries(found) as Item} : undefined
  }
  if (!('L' in value)) return undefined
  const L = value.L.flatMap((each, at) => {
    const inner = wanted.get(at)
    return (inner && partOf(each, inner)) ?? []
  })
  return L.length > 0 ? {L} : undefined
}

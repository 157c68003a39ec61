import type {AttributeValue, Item} from '../../../src/lib/schema/attribute-value.js'
import {addNumbers, subtractNumbers} from './decimal.js'
import {namedPath, nameOf, operandOf, type Placeholders, valueAt} from './evaluate.js'
import type {Assigned, Path, Update} from './expression.js'
import {invalid} from './service-error.js'
import {copyValue} from './values.js'

const WRONG_TYPE = 'An operand in the update expression has an incorrect data type'
const NO_PLACE = 'The document path provided in the update expression is invalid for update'
const NOT_THERE = 'The provided expression refers to an attribute that does not exist in the item'

/** The item after an update; values on the right side are those before it. */
export function updatedItem(before: Item, update: Update, placeholders: Placeholders): Item {
  const after: Item = {...before}
  for (const {path, value} of update.set) put(after, path, assigned(value, before, placeholders), placeholders)
  for (const {path, value} of update.add) {
    const sum = added(valueAt(before, path, placeholders), operand(value, before, placeholders))
    put(after, path, sum, placeholders)
  }
  for (const {path, value} of update.delete) {
    const old = valueAt(before, path, placeholders)
    const rest = reduced(old, operand(value, before, placeholders))
    if (rest) put(after, path, rest, placeholders)
    else if (old) removeAll(after, [path], placeholders)
  }
  removeAll(after, update.remove, placeholders)
  return after
}

/** The places that an update names. */
export function pathsIn({set, remove, add, delete: deleted}: Update, placeholders: Placeholders): Path[] {
  const paths = [...[...set, ...add, ...deleted].map(({path}) => path), ...remove]
  return paths.map(path => namedPath(path, placeholders))
}

/** Rejects an update that names one place twice. */
export function refuseOverlaps(paths: readonly Path[]): void {
  // The common case: top-level attributes, each once.
  if (paths.every(path => path.length === 1) && new Set(paths.map(([first]) => first)).size === paths.length) return
  for (const [at, one] of paths.entries()) {
    for (const other of paths.slice(at + 1)) {
      const length = Math.min(one.length, other.length)
      if (one.slice(0, length).every((each, index) => each === other[index])) {
        throw invalid('Invalid UpdateExpression: Two document paths overlap with each other;')
      }
    }
  }
}

function operand(value: Update['add'][number]['value'], item: Item, placeholders: Placeholders): AttributeValue {
  const found = operandOf(value, item, placeholders)
  if (found === undefined) throw invalid(NOT_THERE)
  return found
}

function assigned(value: Assigned, item: Item, placeholders: Placeholders): AttributeValue {
  switch (value.kind) {
    case 'if_not_exists':
      return valueAt(item, value.path, placeholders) ?? assigned(value.otherwise, item, placeholders)
    case '+':
    case '-': {
      const [left, right] = [value.left, value.right].map(each => assigned(each, item, placeholders))
      if (!left || !right || !('N' in left) || !('N' in right)) throw invalid(WRONG_TYPE)
      return {N: value.kind === '+' ? addNumbers(left.N, right.N) : subtractNumbers(left.N, right.N)}
    }
    case 'list_append': {
      const [left, right] = [value.left, value.right].map(each => assigned(each, item, placeholders))
      if (!left || !right || !('L' in left) || !('L' in right)) throw invalid(WRONG_TYPE)
      return {L: [...left.L, ...right.L]}
    }
    default:
      return copyValue(operand(value, item, placeholders))
  }
}

/** A number counts from zero, a set from empty. */
function added(old: AttributeValue | undefined, by: AttributeValue): AttributeValue {
  if ('N' in by) {
    if (old && !('N' in old)) throw invalid(WRONG_TYPE)
    return {N: addNumbers(old?.N ?? '0', by.N)}
  }
  if ('SS' in by) {
    if (old && !('SS' in old)) throw invalid(WRONG_TYPE)
    return {SS: [...new Set([...(old?.SS ?? []), ...by.SS])]}
  }
  if ('NS' in by) {
    if (old && !('NS' in old)) throw invalid(WRONG_TYPE)
    return {NS: [...new Set([...(old?.NS ?? []), ...by.NS])]}
  }
  throw invalid(WRONG_TYPE)
}

/** The rest of a set; `undefined` if empty. */
function reduced(old: AttributeValue | undefined, by: AttributeValue): AttributeValue | undefined {
  if (!('SS' in by) && !('NS' in by)) throw invalid(WRONG_TYPE)
  if (old === undefined) return undefined
  if ('SS' in by && 'SS' in old) {
    const SS = old.SS.filter(each => !by.SS.includes(each))
    return SS.length > 0 ? {SS} : undefined
  }
  if ('NS' in by && 'NS' in old) {
    const NS = old.NS.filter(each => !by.NS.includes(each))
    return NS.length > 0 ? {NS} : undefined
  }
  throw invalid(WRONG_TYPE)
}

/** Writes only into copies: stored values are shared with earlier images. */
function put(item: Item, path: Path, value: AttributeValue, placeholders: Placeholders): void {
  const [first, ...rest] = path as [string, ...(string | number)[]]
  const name = nameOf(first, placeholders)
  item[name] = rest.length === 0 ? value : putInside(item[name], rest, value, placeholders)
}

function putInside(
  parent: AttributeValue | undefined,
  [element, ...rest]: Path,
  value: AttributeValue,
  placeholders: Placeholders,
): AttributeValue {
  const inner = (old: AttributeValue | undefined) =>
    rest.length === 0 ? value : putInside(old, rest, value, placeholders)
  if (typeof element === 'number' && parent && 'L' in parent) {
    const L = [...parent.L]
    // Beyond the end means at the end.
    L[Math.min(element, L.length)] = inner(L[element])
    return {L}
  }
  if (typeof element === 'string' && parent && 'M' in parent) {
    const name = nameOf(element, placeholders)
    return {M: {...parent.M, [name]: inner(parent.M[name])}}
  }
  throw invalid(NO_PLACE)
}

function removeAll(item: Item, paths: readonly Path[], placeholders: Placeholders): void {
  // From the end of a list, so that the other positions stay valid.
  for (const path of paths.toSorted((a, b) => Number(b.at(-1)) - Number(a.at(-1)) || 0)) {
    const [first, ...rest] = path as [string, ...(string | number)[]]
    const name = nameOf(first, placeholders)
    const parent = item[name]
    if (rest.length === 0) delete item[name]
    else if (parent) item[name] = removeInside(parent, rest, placeholders)
    else throw invalid(NO_PLACE)
  }
}

function removeInside(parent: AttributeValue, [element, ...rest]: Path, placeholders: Placeholders): AttributeValue {
  const isLast = rest.length === 0
  if (typeof element === 'number' && 'L' in parent) {
    const old = parent.L[element]
    if (old === undefined) return parent
    return {
      L: parent.L.flatMap((each, at) => {
        if (at !== element) return [each]
        return isLast ? [] : [removeInside(old, rest, placeholders)]
      }),
    }
  }
  if (typeof element === 'string' && 'M' in parent) {
    const name = nameOf(element, placeholders)
    const {[name]: old, ...others} = parent.M
    if (isLast || old === undefined) {
      if (!isLast) throw invalid(NO_PLACE)
      return {M: others}
    }
    return {M: {...others, [name]: removeInside(old, rest, placeholders)}}
  }
  throw invalid(NO_PLACE)
}

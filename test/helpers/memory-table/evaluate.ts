import type {AttributeValue, Item} from '../../../src/lib/schema/attribute-value.js'
import type {Condition, Operand, Path} from './expression.js'
import {invalid} from './service-error.js'
import {compareValues, elementsOf, isEqual, typeOf} from './values.js'

/** The values of a request's placeholders. */
export interface Placeholders {
  readonly names: Readonly<Record<string, string>>
  readonly values: Item
}

export function nameOf(element: string, {names}: Placeholders): string {
  if (!element.startsWith('#')) return element
  const name = names[element]
  if (name === undefined) {
    throw invalid(`An expression attribute name used in the document path is not defined; attribute name: ${element}`)
  }
  return name
}

/** A path with placeholders resolved. */
export function namedPath(path: Path, placeholders: Placeholders): Path {
  return path.map(each => (typeof each === 'number' ? each : nameOf(each, placeholders)))
}

export function placedValue(placeholder: string, {values}: Placeholders): AttributeValue {
  const value = values[placeholder]
  if (value === undefined) {
    throw invalid(`An expression attribute value used in expression is not defined; attribute value: ${placeholder}`)
  }
  return value
}

/** The value at a place of an item. */
export function valueAt(item: Item, path: Path, placeholders: Placeholders): AttributeValue | undefined {
  let value: AttributeValue | undefined = {M: item}
  for (const element of path) {
    if (value === undefined) return undefined
    value = typeof element === 'number' ? elementAt(value, element) : memberOf(value, nameOf(element, placeholders))
  }
  return value
}

function elementAt(value: AttributeValue, at: number): AttributeValue | undefined {
  return 'L' in value ? value.L[at] : undefined
}

function memberOf(value: AttributeValue, name: string): AttributeValue | undefined {
  return 'M' in value ? value.M[name] : undefined
}

export function operandOf(operand: Operand, item: Item, placeholders: Placeholders): AttributeValue | undefined {
  if (operand.kind === 'value') return placedValue(operand.placeholder, placeholders)
  if (operand.kind === 'path') return valueAt(item, operand.path, placeholders)
  const value = operandOf(operand.of, item, placeholders)
  const size = value && lengthOf(value)
  return size === undefined ? undefined : {N: String(size)}
}

/** Whether an item, `{}` for none, meets a condition. */
export function holds(condition: Condition, item: Item, placeholders: Placeholders): boolean {
  const read = (operand: Operand) => operandOf(operand, item, placeholders)
  switch (condition.kind) {
    case 'and':
      return condition.terms.every(term => holds(term, item, placeholders))
    case 'or':
      return condition.terms.some(term => holds(term, item, placeholders))
    case 'not':
      return !holds(condition.term, item, placeholders)
    case 'compare':
      return compares(condition.operator, read(condition.left), read(condition.right))
    case 'between': {
      const value = read(condition.operand)
      return compares('>=', value, read(condition.low)) && compares('<=', value, read(condition.high))
    }
    case 'in': {
      const value = read(condition.operand)
      return value !== undefined && condition.list.some(each => isEqual(value, read(each)))
    }
    case 'function':
      return applies(condition.name, condition.args.map(read))
  }
}

function compares(operator: string, a: AttributeValue | undefined, b: AttributeValue | undefined): boolean {
  if (operator === '<>') return !isSame(a, b)
  if (operator === '=') return isSame(a, b)
  const order = a && b && compareValues(a, b)
  if (order === undefined) return false
  if (operator === '<') return order < 0
  if (operator === '<=') return order <= 0
  return operator === '>' ? order > 0 : order >= 0
}

/** A missing value equals nothing. */
function isSame(a: AttributeValue | undefined, b: AttributeValue | undefined): boolean {
  return a !== undefined && b !== undefined && isEqual(a, b)
}

function applies(name: string, [value, argument]: readonly (AttributeValue | undefined)[]): boolean {
  if (name === 'attribute_exists') return value !== undefined
  if (name === 'attribute_not_exists') return value === undefined
  if (value === undefined || argument === undefined) return false
  if (name === 'attribute_type') return 'S' in argument && typeOf(value) === argument.S
  if (name === 'begins_with') return 'S' in value && 'S' in argument && value.S.startsWith(argument.S)
  if ('S' in value) return 'S' in argument && value.S.includes(argument.S)
  if ('L' in value) return value.L.some(each => isEqual(each, argument))
  const [element] = 'S' in argument ? [argument.S] : 'N' in argument ? [argument.N] : []
  const isOfType = ('SS' in value && 'S' in argument) || ('NS' in value && 'N' in argument)
  return isOfType && element !== undefined && elementsOf(value).includes(element)
}

function lengthOf(value: AttributeValue): number | undefined {
  if ('S' in value) return value.S.length
  if ('B' in value) return value.B.length
  if ('M' in value) return Object.keys(value.M).length
  if ('L' in value) return value.L.length
  const elements = elementsOf(value)
  return elements.length > 0 ? elements.length : undefined
}

import type {AttributeValue, Item} from '../../../src/lib/schema/attribute-value.js'
import {canonicalNumber, compareNumbers} from './decimal.js'
import {invalid} from './service-error.js'

export type TypeName = 'S' | 'N' | 'B' | 'BOOL' | 'NULL' | 'M' | 'L' | 'SS' | 'NS' | 'BS'

export function typeOf(value: AttributeValue): TypeName {
  for (const name in value) return name as TypeName
  throw invalid('Supplied AttributeValue is empty, must contain exactly one of the supported datatypes')
}

/** A deep copy, with numbers as stored. */
export function copyItem(item: Item): Item {
  const copy: Item = {}
  for (const name in item) {
    const value = item[name]
    if (value !== undefined) copy[name] = copyValue(value)
  }
  return copy
}

export function copyValue(value: AttributeValue): AttributeValue {
  if ('S' in value) return {S: value.S}
  if ('N' in value) return {N: storedNumber(value.N)}
  if ('M' in value) return {M: copyItem(value.M)}
  if ('L' in value) return {L: value.L.map(copyValue)}
  if ('SS' in value) return {SS: uniqueElements(value.SS)}
  if ('NS' in value) return {NS: uniqueElements(value.NS.map(storedNumber))}
  if ('BS' in value) return {BS: value.BS.map(bytes => Uint8Array.from(bytes))}
  if ('B' in value) return {B: Uint8Array.from(value.B)}
  return {...value}
}

function storedNumber(text: string): string {
  const number = canonicalNumber(text)
  if (number === undefined) throw invalid(`The parameter cannot be converted to a numeric value: ${text}`)
  return number
}

function uniqueElements(elements: readonly string[]): string[] {
  if (elements.length === 0) throw invalid('One or more parameter values were invalid: An set may not be empty')
  if (new Set(elements).size < elements.length) {
    throw invalid('One or more parameter values were invalid: Input collection contains duplicates')
  }
  return [...elements]
}

/** Whether two values, or two absences, are equal, ignoring the order of sets. */
export function isEqual(a: AttributeValue | undefined, b: AttributeValue | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  if ('S' in a) return 'S' in b && a.S === b.S
  if ('N' in a) return 'N' in b && (a.N === b.N || compareNumbers(a.N, b.N) === 0)
  if ('BOOL' in a) return 'BOOL' in b && a.BOOL === b.BOOL
  if ('NULL' in a) return 'NULL' in b
  if ('M' in a) return 'M' in b && isEqualItem(a.M, b.M)
  if ('L' in a) return 'L' in b && a.L.length === b.L.length && a.L.every((each, at) => isEqual(each, b.L[at]))
  if ('B' in a) return 'B' in b && Buffer.compare(a.B, b.B) === 0
  return typeOf(a) === typeOf(b) && elementsOf(a).join() === elementsOf(b).join()
}

export function isEqualItem(a: Item, b: Item): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every(name => isEqual(a[name], b[name]))
}

/** The elements of a set in a canonical order; `[]` for anything else. */
export function elementsOf(value: AttributeValue): string[] {
  if ('SS' in value) return [...value.SS].sort()
  if ('NS' in value) return [...value.NS].sort(compareNumbers)
  if ('BS' in value) return value.BS.map(bytes => Buffer.from(bytes).toString('base64')).sort()
  return []
}

/** Order of two values of the same ordered type; `undefined` if there is none. */
export function compareValues(a: AttributeValue, b: AttributeValue): number | undefined {
  if ('S' in a) return 'S' in b ? compareTexts(a.S, b.S) : undefined
  if ('N' in a) return 'N' in b ? compareNumbers(a.N, b.N) : undefined
  if ('B' in a) return 'B' in b ? Buffer.compare(a.B, b.B) : undefined
  return undefined
}

/** By the bytes of UTF-8, in which surrogate pairs sort last. */
export function compareTexts(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const [x, y] = [a.charCodeAt(at), b.charCodeAt(at)]
    if (x !== y) return rankOf(x) - rankOf(y)
  }
  return a.length - b.length
}

function rankOf(codeUnit: number): number {
  if (codeUnit >= 0xe000) return codeUnit - 0x800
  return codeUnit >= 0xd800 ? codeUnit + 0x2000 : codeUnit
}

/** Stored items are never mutated, so their size can be cached. */
const sizes = new WeakMap<Item, number>()

/** The size of an item by DynamoDB's rules. */
export function itemSize(item: Item): number {
  let size = sizes.get(item)
  if (size === undefined) {
    size = sizeOf(item)
    sizes.set(item, size)
  }
  return size
}

function sizeOf(item: Item): number {
  let size = 0
  for (const name in item) size += textSize(name) + valueSize(item[name] as AttributeValue)
  return size
}

function valueSize(value: AttributeValue): number {
  if ('S' in value) return textSize(value.S)
  if ('N' in value) return numberSize(value.N)
  if ('M' in value) return 3 + Object.values(value.M).length + sizeOf(value.M)
  if ('L' in value) return 3 + value.L.reduce((sum, each) => sum + 1 + valueSize(each), 0)
  if ('SS' in value) return value.SS.reduce((sum, each) => sum + textSize(each), 0)
  if ('NS' in value) return value.NS.reduce((sum, each) => sum + numberSize(each), 0)
  if ('B' in value) return value.B.length
  if ('BS' in value) return value.BS.reduce((sum, each) => sum + each.length, 0)
  return 1
}

function textSize(text: string): number {
  return Buffer.byteLength(text)
}

/** Two digits per byte, without zeros at either end, and one byte for sign and exponent. */
function numberSize(text: string): number {
  const digits = text.replace(/\D/g, '').replace(/^0+|0+$/g, '').length
  return Math.ceil(digits / 2) + 1
}

import type {AttributeValue, Item} from './attribute-value.js'

export type Json = string | number | boolean | null | Json[] | {[key: string]: Json}

export function toJson(value: AttributeValue): Json {
  if ('S' in value) return value.S
  if ('N' in value) return Number(value.N)
  if ('BOOL' in value) return value.BOOL
  if ('M' in value) return Object.fromEntries(Object.entries(value.M).map(([key, each]) => [key, toJson(each)]))
  if ('L' in value) return value.L.map(toJson)
  if ('SS' in value) return value.SS
  if ('NS' in value) return value.NS.map(Number)
  return null
}

export function fromJson(value: Json): AttributeValue {
  if (typeof value === 'string') return {S: value}
  if (typeof value === 'number') return {N: String(value)}
  if (typeof value === 'boolean') return {BOOL: value}
  if (value === null) return {NULL: true}
  if (Array.isArray(value)) return {L: value.map(fromJson)}
  return {M: Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fromJson(each)]))}
}

export function readMap(item: Item, name: string): {[key: string]: Json} {
  const value = item[name]
  return value && 'M' in value ? (toJson(value) as {[key: string]: Json}) : {}
}

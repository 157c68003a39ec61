import type {Reading, Readings} from '../model/model.js'
import {sharedIfIdle} from './reading.js'

type Packed = Omit<Reading, 'id'>

/** Takes less than half the memory; rebuilds a reading on every access. */
export class PackedReadings implements Readings {
  readonly #values = new PackedValues()
  readonly #places = new Map<string, number>()

  get size(): number {
    return this.#places.size
  }

  add({id, ...rest}: Reading): void {
    const {entity, resource, shardCount, shards} = rest.bucket
    const packed: Packed = {...rest, bucket: {entity, resource, shardCount, shards}}
    this.#places.set(id, this.#values.add(packed))
  }

  has(id: string): boolean {
    return this.#places.has(id)
  }

  get(id: string): Reading | undefined {
    const place = this.#places.get(id)
    return place === undefined ? undefined : this.#readingAt(id, place)
  }

  keys(): MapIterator<string> {
    return this.#places.keys()
  }

  *values(): Generator<Reading, undefined> {
    for (const [id, place] of this.#places) yield this.#readingAt(id, place)
  }

  #readingAt(id: string, place: number): Reading {
    const packed = this.#values.at(place) as Packed
    return {id, ...packed, ratePerSecond: sharedIfIdle(packed.ratePerSecond)}
  }
}

const BLOCK_BYTES = 1 << 20

/** Shares the first texts: names repeat, ids do not. */
const MOST_SHARED = 10_000

const Tag = {
  undefined: 0,
  null: 1,
  false: 2,
  true: 3,
  double: 4,
  bigintText: 5,
  text: 6,
  shared: 8,
  /** A text that occurred earlier in the same value. */
  again: 9,
  array: 10,
  map: 11,
  object: 12,
  /** Plus the number of bytes, 1 to 6; `bigint` too. */
  integer: 16,
  bigint: 24,
} as const

const MOST_INTEGER_BYTES = 6

/** Counts from 255 on follow in four bytes. */
const LARGE_COUNT = 255

/** Stores values outside the heap and returns equal copies; keeps functions and class instances by reference. */
export class PackedValues {
  readonly #blocks: Buffer[] = []
  #used = BLOCK_BYTES
  #scratch = Buffer.allocUnsafeSlow(1 << 14)
  #end = 0
  readonly #shared: unknown[] = []
  readonly #places = new Map<unknown, number>()
  readonly #shapes: (readonly string[])[] = []
  readonly #shapeNumbers = new Map<string, number>()
  #texts: string[] = []

  add(value: unknown): number {
    this.#end = 0
    this.#texts = []
    this.#write(value)
    const block = this.#blockFor(this.#end)
    const start = this.#used
    this.#scratch.copy(block, start, 0, this.#end)
    this.#used += this.#end
    return (this.#blocks.length - 1) * BLOCK_BYTES + start
  }

  at(place: number): unknown {
    this.#texts = []
    this.#end = place % BLOCK_BYTES
    return this.#read(this.#blocks[Math.floor(place / BLOCK_BYTES)] as Buffer)
  }

  #blockFor(bytes: number): Buffer {
    const last = this.#blocks.at(-1)
    if (last && this.#used + bytes <= last.length) return last
    const block = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, bytes))
    this.#blocks.push(block)
    this.#used = 0
    return block
  }

  #write(value: unknown): void {
    if (value === undefined) this.#byte(Tag.undefined)
    else if (value === null) this.#byte(Tag.null)
    else if (typeof value === 'boolean') this.#byte(value ? Tag.true : Tag.false)
    else if (typeof value === 'number') this.#number(value)
    else if (typeof value === 'bigint') this.#bigint(value)
    else if (typeof value === 'string') this.#text(value)
    else if (Array.isArray(value)) this.#list(Tag.array, value.length, value)
    else if (value instanceof Map) this.#list(Tag.map, value.size, flat(value))
    else if (isPlain(value)) this.#object(value)
    else this.#reference(Tag.shared, this.#places.get(value) ?? this.#share(value))
  }

  #list(tag: number, count: number, elements: Iterable<unknown>): void {
    this.#reference(tag, count)
    for (const each of elements) this.#write(each)
  }

  #object(value: Record<string, unknown>): void {
    const names = Object.keys(value)
    const key = JSON.stringify(names)
    let shape = this.#shapeNumbers.get(key)
    if (shape === undefined) {
      shape = this.#shapes.push(names) - 1
      this.#shapeNumbers.set(key, shape)
    }
    this.#reference(Tag.object, shape)
    for (const name of names) this.#write(value[name])
  }

  #number(value: number): void {
    const bytes = Number.isInteger(value) && !Object.is(value, -0) ? bytesOf(value) : undefined
    if (bytes === undefined) {
      this.#byte(Tag.double)
      this.#end = this.#room(8).writeDoubleLE(value, this.#end)
    } else this.#integer(Tag.integer, value, bytes)
  }

  #bigint(value: bigint): void {
    const bytes = bytesOf(Number(value))
    if (bytes === undefined) {
      this.#byte(Tag.bigintText)
      this.#text(String(value))
    } else this.#integer(Tag.bigint, Number(value), bytes)
  }

  #integer(tag: number, value: number, bytes: number): void {
    this.#byte(tag + bytes)
    this.#end = this.#room(bytes).writeIntLE(value, this.#end, bytes)
  }

  #text(text: string): void {
    const place = this.#places.get(text) ?? (this.#places.size < MOST_SHARED ? this.#share(text) : undefined)
    const before = place === undefined ? this.#texts.indexOf(text) : -1
    if (place !== undefined) this.#reference(Tag.shared, place)
    else if (before >= 0) this.#reference(Tag.again, before)
    else this.#ownText(text)
  }

  #ownText(text: string): void {
    this.#texts.push(text)
    const bytes = Buffer.byteLength(text)
    this.#reference(Tag.text, bytes)
    this.#end += this.#room(bytes).write(text, this.#end)
  }

  #share(value: unknown): number {
    const place = this.#shared.push(value) - 1
    this.#places.set(value, place)
    return place
  }

  #reference(tag: number, count: number): void {
    this.#byte(tag)
    this.#byte(Math.min(count, LARGE_COUNT))
    if (count >= LARGE_COUNT) this.#end = this.#room(4).writeUInt32LE(count, this.#end)
  }

  #byte(value: number): void {
    this.#room(1)[this.#end++] = value
  }

  #room(bytes: number): Buffer {
    if (this.#end + bytes > this.#scratch.length) {
      const larger = Buffer.allocUnsafeSlow(2 * (this.#end + bytes))
      this.#scratch.copy(larger, 0, 0, this.#end)
      this.#scratch = larger
    }
    return this.#scratch
  }

  #read(from: Buffer): unknown {
    const tag = from[this.#end++] as number
    switch (tag) {
      case Tag.undefined:
        return undefined
      case Tag.null:
        return null
      case Tag.false:
        return false
      case Tag.true:
        return true
      case Tag.double:
        this.#end += 8
        return from.readDoubleLE(this.#end - 8)
      case Tag.bigintText:
        return BigInt(this.#read(from) as string)
      case Tag.text:
        return this.#readText(from)
      case Tag.shared:
        return this.#shared[this.#readCount(from)]
      case Tag.again:
        return this.#texts[this.#readCount(from)]
      case Tag.array:
        return this.#readArray(from)
      case Tag.map:
        return this.#readMap(from)
      case Tag.object:
        return this.#readObject(from)
    }
    const bytes = tag % 8
    this.#end += bytes
    const integer = from.readIntLE(this.#end - bytes, bytes)
    return tag - bytes === Tag.bigint ? BigInt(integer) : integer
  }

  #readCount(from: Buffer): number {
    const count = from[this.#end++] as number
    if (count < LARGE_COUNT) return count
    this.#end += 4
    return from.readUInt32LE(this.#end - 4)
  }

  #readText(from: Buffer): string {
    const bytes = this.#readCount(from)
    const text = from.toString('utf8', this.#end, this.#end + bytes)
    this.#end += bytes
    this.#texts.push(text)
    return text
  }

  #readArray(from: Buffer): unknown[] {
    const values: unknown[] = []
    for (let left = this.#readCount(from); left > 0; left--) values.push(this.#read(from))
    return values
  }

  #readMap(from: Buffer): Map<unknown, unknown> {
    const values = new Map<unknown, unknown>()
    for (let left = this.#readCount(from); left > 0; left--) {
      const key = this.#read(from)
      values.set(key, this.#read(from))
    }
    return values
  }

  #readObject(from: Buffer): Record<string, unknown> {
    const value: Record<string, unknown> = {}
    for (const name of this.#shapes[this.#readCount(from)] as readonly string[]) value[name] = this.#read(from)
    return value
  }
}

const isPlain = (value: object): value is Record<string, unknown> =>
  Object.getPrototypeOf(value) === Object.prototype && !Object.hasOwn(value, '__proto__')

function* flat(values: ReadonlyMap<unknown, unknown>): Generator<unknown, void> {
  for (const entry of values) yield* entry
}

function bytesOf(value: number): number | undefined {
  for (let bytes = 1; bytes <= MOST_INTEGER_BYTES; bytes++) {
    const bound = 2 ** (8 * bytes - 1)
    if (value >= -bound && value < bound) return bytes
  }
  return undefined
}

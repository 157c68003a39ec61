import {crc32} from 'node:zlib'

/** 1 January 1980, the earliest date of the format: the current date would make every archive different. */
const DATE = 0x0021
const TIME = 0
const STORED = 0
const VERSION_NEEDED = 10
const VERSION_MADE = (3 << 8) | VERSION_NEEDED // created on Unix, so that MODE applies
const MODE = 0o100644 // readable by all users: Lambda does not run as the owner
const FLAGS = 0x0800 // the name is UTF-8

/**
 * An archive with the same bytes on every machine, so that its hash shows whether a function runs this code. It is not
 * compressed: compressed bytes depend on the version of zlib.
 */
export function zipOf(files: Readonly<Record<string, Buffer>>): Buffer {
  const locals: Buffer[] = []
  const centrals: Buffer[] = []
  let offset = 0
  for (const [name, content] of Object.entries(files)) {
    const path = Buffer.from(name, 'utf8')
    const shared = Buffer.concat([
      u16(FLAGS, STORED, TIME, DATE),
      u32(crc32(content), content.length, content.length),
      u16(path.length, 0),
    ])
    const attributes = u32((MODE << 16) >>> 0, offset)
    centrals.push(Buffer.from('PK\x01\x02'), u16(VERSION_MADE, VERSION_NEEDED), shared, u16(0, 0, 0), attributes, path)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), u16(VERSION_NEEDED), shared, path, content])
    locals.push(local)
    offset += local.length
  }
  const central = Buffer.concat(centrals)
  const count = locals.length
  const end = [Buffer.from('PK\x05\x06'), u16(0, 0, count, count), u32(central.length, offset), u16(0)]
  return Buffer.concat([...locals, central, ...end])
}

function u16(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2)
  for (const [at, value] of values.entries()) bytes.writeUInt16LE(value, at * 2)
  return bytes
}

function u32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [at, value] of values.entries()) bytes.writeUInt32LE(value, at * 4)
  return bytes
}

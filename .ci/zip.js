// The archive of the aggregator's code. Made by the build and not on the user's machine: compressed bytes depend on the
// version of zlib, and `deploy` uploads code whose hash is another one.
import {crc32, deflateRawSync} from 'node:zlib'

/** 1 January 1980, the earliest date of the format: the current date would make every archive different. */
const DATE = 0x0021
const TIME = 0
const DEFLATED = 8
const VERSION_NEEDED = 20 // 2.0: compressed files
const VERSION_MADE = (3 << 8) | VERSION_NEEDED // created on Unix, so that MODE applies
const MODE = 0o100644 // readable by all users: Lambda does not run as the owner
const FLAGS = 0x0800 // the name is UTF-8

export function zipOf(name, content) {
  const path = Buffer.from(name, 'utf8')
  const packed = deflateRawSync(content, {level: 9})
  const shared = Buffer.concat([
    u16(FLAGS, DEFLATED, TIME, DATE),
    u32(crc32(content), packed.length, content.length),
    u16(path.length, 0),
  ])
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), u16(VERSION_NEEDED), shared, path, packed])
  const attributes = u32((MODE << 16) >>> 0, 0)
  const central = Buffer.concat([
    Buffer.from('PK\x01\x02'),
    u16(VERSION_MADE, VERSION_NEEDED),
    shared,
    u16(0, 0, 0),
    attributes,
    path,
  ])
  const end = Buffer.concat([Buffer.from('PK\x05\x06'), u16(0, 0, 1, 1), u32(central.length, local.length), u16(0)])
  return Buffer.concat([local, central, end])
}

function u16(...values) {
  const bytes = Buffer.alloc(values.length * 2)
  for (const [at, value] of values.entries()) bytes.writeUInt16LE(value, at * 2)
  return bytes
}

function u32(...values) {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [at, value] of values.entries()) bytes.writeUInt32LE(value, at * 4)
  return bytes
}

import {createHash} from 'node:crypto'
import {readFile} from 'node:fs/promises'
import {crc32} from 'node:zlib'
import {ZaelError} from '../../core/errors.js'
import {packageFile} from '../../files/package-file.js'

/** CloudFormation puts inline code into a file named `index`, so the template's handler `index.handler` fits both. */
const FILE_NAME = 'index.mjs'

export interface LambdaPackage {
  readonly zip: Buffer
  /** In the format of Lambda's `CodeSha256`. */
  readonly sha256Base64: string
  readonly bytes: number
}

export async function lambdaPackage(): Promise<LambdaPackage> {
  const zip = zipOf(FILE_NAME, await readBundle())
  return {zip, sha256Base64: createHash('sha256').update(zip).digest('base64'), bytes: zip.length}
}

async function readBundle(): Promise<Buffer> {
  try {
    return await readFile(packageFile('dist/lambda/aggregator.mjs'))
  } catch (cause) {
    throw new ZaelError('failed', 'lambda.bundle', 'The code of the aggregator is missing from this installation.', {
      hint: 'Install zael again, or run "npm run build" in its source folder.',
      cause,
    })
  }
}

/** 1 January 1980, the earliest date of the format: the current date would make every archive different. */
const DATE = 0x0021
const TIME = 0
const VERSION_NEEDED = 20 // 2.0: plain files
const VERSION_MADE = (3 << 8) | VERSION_NEEDED // created on Unix, so that MODE applies
const MODE = 0o100644 // readable by all users: Lambda does not run as the owner
const FLAGS = 0x0800 // the name is UTF-8

/** Uncompressed: compressed bytes depend on the zlib version, but the archive must be the same on every machine. */
export function zipOf(name: string, content: Uint8Array): Buffer {
  const path = Buffer.from(name, 'utf8')
  const crc = crc32(content)
  const shared = Buffer.concat([
    u16(FLAGS, 0, TIME, DATE),
    u32(crc, content.length, content.length),
    u16(path.length, 0),
  ])
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), u16(VERSION_NEEDED), shared, path, content])
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

function u16(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2)
  for (const [at, value] of values.entries()) bytes.writeUInt16LE(value, at * 2)
  return bytes
}

function u32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [at, value] of values.entries()) bytes.writeUInt32LE(value, at * 4)
  return bytes
}

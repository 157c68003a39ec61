import {closeSync, constants, openSync, readSync, type Stats} from 'node:fs'
import {type FileHandle, open} from 'node:fs/promises'
import {InvalidInput, ZaelError} from '../core/errors.js'

const BYTES_PER_READ = 2 ** 16

interface TextRequest {
  /** Path, or `-` for standard input. */
  readonly file: string
  readonly code: string
  readonly maxBytes: number
  readonly hint: string
  /** For a file that the user did not name: it must be a regular file for which this is true. */
  readonly accept?: (stats: Stats) => boolean
}

export interface FileText {
  readonly bytes: number
  /** Without a byte order mark. Throws if it is not UTF-8 text. */
  text(): string
  /** Cut anywhere. May contain control characters, including NUL. */
  pieces(): Iterable<string>
}

export async function readText(request: TextRequest): Promise<string | undefined> {
  return (await readPieces(request))?.text()
}

/** `undefined` if the file is missing or not accepted. Stops reading after `maxBytes`, even from a device or pipe. */
export async function readPieces({file, code, maxBytes, hint, accept}: TextRequest): Promise<FileText | undefined> {
  const refuse = (why: string) => new InvalidInput(code, `Cannot read ${file}: ${why}`, {hint, details: {file}})
  const unreadable = (error: unknown) =>
    new ZaelError('failed', code, `Cannot read ${file}: ${(error as Error).message}`, {
      hint,
      details: {file},
      cause: error,
    })
  const chunks: Buffer[] = []
  let bytes = 0
  let isRegular = false
  let handle: FileHandle | undefined
  try {
    if (file !== '-') {
      // Otherwise opening a pipe without a writer would block.
      handle = await open(file, accept ? constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) : 'r')
      const stats = await handle.stat()
      if (accept && !accept(stats)) return undefined
      if (stats.isDirectory()) throw accept ? new Error('it is a folder') : refuse('it is a folder')
      if (accept && !stats.isFile()) throw new Error('it is not a regular file')
      // Read an accepted file from this handle: its name may refer to another file later.
      isRegular = !accept && stats.isFile() && stats.size <= maxBytes
      bytes = isRegular ? stats.size : 0
    }
    // Regular files are read again on demand and not kept in memory.
    const source = isRegular ? [] : (handle?.createReadStream({autoClose: false}) ?? process.stdin)
    for await (const chunk of source) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxBytes) break
    }
  } catch (error) {
    if (error instanceof InvalidInput) throw error
    const {code: reason} = error as NodeJS.ErrnoException
    if (reason === 'ENOENT' || reason === 'ENOTDIR') return undefined
    throw unreadable(error)
  } finally {
    await handle?.close()
  }
  const tooLarge = () => refuse(`it is larger than ${formatSize(maxBytes)}`)
  if (bytes > maxBytes) throw tooLarge()
  function* read(): Generator<Buffer, void> {
    if (!isRegular) return yield* chunks
    let sum = 0
    for (const chunk of chunksOfFile(file, unreadable)) {
      sum += chunk.length
      if (sum > maxBytes) throw tooLarge()
      yield chunk
    }
  }
  const newDecoder = () => new TextDecoder('utf-8', {fatal: true})
  const utf8 = (decode: () => string): string => {
    try {
      return decode()
    } catch {
      throw refuse('it is not UTF-8 text')
    }
  }
  return {
    bytes,
    text: () => {
      const all = Buffer.concat([...read()])
      const text = utf8(() => newDecoder().decode(all))
      const nul = text.indexOf('\0')
      if (nul >= 0) throw refuse(`it is not text: line ${text.slice(0, nul).split('\n').length} has a NUL byte`)
      return text
    },
    *pieces() {
      const decoder = newDecoder()
      for (const chunk of read()) yield utf8(() => decoder.decode(chunk, {stream: true}))
      yield utf8(() => decoder.decode())
    },
  }
}

function* chunksOfFile(file: string, unreadable: (error: unknown) => Error): Generator<Buffer, void> {
  let descriptor: number | undefined
  try {
    descriptor = openSync(file, 'r')
    for (;;) {
      const chunk = Buffer.allocUnsafe(BYTES_PER_READ)
      const length = readSync(descriptor, chunk)
      if (length === 0) return
      yield chunk.subarray(0, length)
    }
  } catch (error) {
    throw unreadable(error)
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

export function formatSize(bytes: number): string {
  return bytes < 2 ** 20 ? `${bytes / 1024} KiB` : `${bytes / 2 ** 20} MiB`
}

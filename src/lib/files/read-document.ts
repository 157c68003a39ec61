import {closeSync, constants, openSync, readSync, type Stats} from 'node:fs'
import {type FileHandle, open} from 'node:fs/promises'
import {InvalidInput, ZaelError} from '../core/errors.js'

const BYTES_PER_READ = 2 ** 16

interface TextRequest {
  /** Path, or `-` for standard input. */
  readonly file: string
  /** Code of the errors, such as `manifest.file`. */
  readonly code: string
  readonly maxBytes: number
  readonly hint: string
  /** Given for a file that was not named by the user: it must be a regular one, and this must be true of it. */
  readonly accept?: (stats: Stats) => boolean
}

/** What was read. UTF-8 is checked when it is asked for. */
export interface FileText {
  readonly bytes: number
  /** Without a byte order mark; throws for what is not text. */
  text(): string
  /** The same piece by piece, cut anywhere; control characters, also NUL, are left to the caller. */
  pieces(): Iterable<string>
}

export async function readText(request: TextRequest): Promise<string | undefined> {
  return (await readPieces(request))?.text()
}

/**
 * The bytes of a file; `undefined` when it does not exist or is not accepted. Nothing is read beyond `maxBytes`, also from a
 * device or a pipe, whose size is not known before.
 */
export async function readPieces({file, code, maxBytes, hint, accept}: TextRequest): Promise<FileText | undefined> {
  const refuse = (why: string) => new InvalidInput(code, `cannot read ${file}: ${why}`, {hint, details: {file}})
  const unreadable = (error: unknown) =>
    new ZaelError('failed', code, `cannot read ${file}: ${(error as Error).message}`, {
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
      // Opening a pipe that nobody writes to would wait.
      handle = await open(file, accept ? constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) : 'r')
      const stats = await handle.stat()
      if (accept && !accept(stats)) return undefined
      if (stats.isDirectory()) throw accept ? new Error('it is a folder') : refuse('it is a folder')
      if (accept && !stats.isFile()) throw new Error('it is not a regular file')
      // One that must be accepted is read from the same handle: its name may stand for another file by then.
      isRegular = !accept && stats.isFile() && stats.size <= maxBytes
      bytes = isRegular ? stats.size : 0
    }
    // What can be read again is read when it is asked for, and not kept.
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
  const attempt = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw unreadable(error)
    }
  }
  const descriptor = attempt(() => openSync(file, 'r'))
  try {
    for (;;) {
      const chunk = Buffer.allocUnsafe(BYTES_PER_READ)
      const length = attempt(() => readSync(descriptor, chunk))
      if (length === 0) return
      yield chunk.subarray(0, length)
    }
  } finally {
    closeSync(descriptor)
  }
}

export function formatSize(bytes: number): string {
  return bytes < 2 ** 20 ? `${bytes / 1024} KiB` : `${bytes / 2 ** 20} MiB`
}

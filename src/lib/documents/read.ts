import {constants, type Stats} from 'node:fs'
import {type FileHandle, open} from 'node:fs/promises'
import {InvalidInput, ZaelError} from '../core/errors.js'

/** What is read, and how to name it in errors. */
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

/**
 * The text of a file that a person has written, without a byte order mark; `undefined` when it does not exist or is not
 * accepted. Nothing is read beyond `maxBytes`, also from a device or a pipe, whose size is not known before.
 */
export async function readText({file, code, maxBytes, hint, accept}: TextRequest): Promise<string | undefined> {
  const refuse = (why: string) => new InvalidInput(code, `cannot read ${file}: ${why}`, {hint, details: {file}})
  const chunks: Buffer[] = []
  let bytes = 0
  let handle: FileHandle | undefined
  try {
    if (file !== '-') {
      // Opening a pipe that nobody writes to would wait.
      handle = await open(file, accept ? constants.O_RDONLY | (constants.O_NONBLOCK ?? 0) : 'r')
      const stats = await handle.stat()
      if (accept && !accept(stats)) return undefined
      if (stats.isDirectory()) throw accept ? new Error('it is a folder') : refuse('it is a folder')
      if (accept && !stats.isFile()) throw new Error('it is not a regular file')
    }
    for await (const chunk of handle?.createReadStream({autoClose: false}) ?? process.stdin) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxBytes) break
    }
  } catch (error) {
    if (error instanceof InvalidInput) throw error
    const {code: reason, message} = error as NodeJS.ErrnoException
    if (reason === 'ENOENT' || reason === 'ENOTDIR') return undefined
    throw new ZaelError('failed', code, `cannot read ${file}: ${message}`, {hint, details: {file}, cause: error})
  } finally {
    await handle?.close()
  }
  if (bytes > maxBytes) throw refuse(`it is larger than ${formatSize(maxBytes)}`)
  let text: string
  try {
    text = new TextDecoder('utf-8', {fatal: true}).decode(Buffer.concat(chunks))
  } catch {
    throw refuse('it is not UTF-8 text')
  }
  const nul = text.indexOf('\0')
  if (nul >= 0) throw refuse(`it is not text: line ${text.slice(0, nul).split('\n').length} has a NUL byte`)
  return text
}

function formatSize(bytes: number): string {
  return bytes < 2 ** 20 ? `${bytes / 1024} KiB` : `${bytes / 2 ** 20} MiB`
}

import {createReadStream} from 'node:fs'
import {InvalidInput, ZaelError} from '../core/errors.js'

/** What is read, and how to name it in errors. */
interface TextRequest {
  /** Path, or `-` for standard input. */
  readonly file: string
  /** Code of the errors, such as `manifest.file`. */
  readonly code: string
  readonly maxBytes: number
  readonly hint: string
}

/**
 * The text of a file that a person has written, without a byte order mark; `undefined` when it does not exist. Nothing
 * is read beyond `maxBytes`, also from a device or a pipe, whose size is not known before.
 */
export async function readText({file, code, maxBytes, hint}: TextRequest): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of file === '-' ? process.stdin : createReadStream(file)) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxBytes) break
    }
  } catch (error) {
    const {code: reason, message} = error as NodeJS.ErrnoException
    if (reason === 'ENOENT' || reason === 'ENOTDIR') return undefined
    const why = reason === 'EISDIR' ? 'it is a folder' : message
    throw new ZaelError('failed', code, `cannot read ${file}: ${why}`, {hint, details: {file}, cause: error})
  }
  const refuse = (why: string) => new InvalidInput(code, `cannot read ${file}: ${why}`, {hint, details: {file}})
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

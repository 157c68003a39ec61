import {appendFileSync, chmodSync, renameSync, statSync} from 'node:fs'
import {open, readFile, stat} from 'node:fs/promises'
import {setTimeout as sleep} from 'node:timers/promises'

export type LogLevel = 'info' | 'warn' | 'error'

export type WriteLog = (level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>) => void

/** Lines that Node wrote while crashing have neither time nor level. */
export interface LogEntry {
  readonly time: string | null
  readonly level: string | null
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

// Two files of at most this size: enough for days of a quiet stack.
const FILE_BYTES = 5 * 1024 * 1024
const POLL_INTERVAL_MS = 200

export function rotatedLog(file: string): string {
  return `${file}.1`
}

/** Keeps at most two files of JSON lines. Writes synchronously, so that the last messages of a crash are not lost. */
export function openLog(file: string, clock: () => number, maxBytes = FILE_BYTES): WriteLog {
  let size = statSync(file, {throwIfNoEntry: false})?.size ?? 0
  return (level, message, fields = {}) => {
    const head = {time: new Date(clock()).toISOString(), level, message}
    const line = `${JSON.stringify({...head, ...fields, ...head})}\n` // head first, and not overridden by fields
    try {
      if (size > 0 && size + Buffer.byteLength(line) > maxBytes) {
        renameSync(file, rotatedLog(file))
        size = 0
      }
      appendFileSync(file, line, {mode: 0o600})
      if (size === 0) chmodSync(file, 0o600)
      size += Buffer.byteLength(line)
    } catch {
      // A full disk must not stop the stack because of its log.
    }
  }
}

export async function tailLog(file: string, count: number): Promise<LogEntry[]> {
  const texts = await Promise.all([rotatedLog(file), file].map(readIfExists))
  const lines = texts.join('').split('\n').filter(Boolean)
  return lines.slice(Math.max(0, lines.length - count)).map(parseLine)
}

/** Yields the last lines, then every new line, across rotations, until the signal aborts. */
export async function* followLog(
  file: string,
  count: number,
  signal: AbortSignal,
  pollIntervalMs = POLL_INTERVAL_MS,
): AsyncGenerator<LogEntry> {
  const older = await readIfExists(rotatedLog(file))
  let {id} = await positionAtEnd(file)
  const begin = await readFrom(file, {id, size: 0})
  let size = begin.length
  let {lines, rest} = completeLines(older + begin)
  lines = lines.slice(Math.max(0, lines.length - count))
  for (;;) {
    for (const line of lines) yield parseLine(line)
    await sleep(pollIntervalMs, undefined, {signal}).catch(() => {})
    if (signal.aborted) return
    const now = await positionAtEnd(file)
    if (now.id !== id || now.size < size) {
      rest += await readFrom(rotatedLog(file), {id, size})
      id = now.id
      size = 0
    }
    const bytes = await readFrom(file, {id, size})
    size += bytes.length
    ;({lines, rest} = completeLines(rest + bytes))
  }
}

export function parseLine(line: string): LogEntry {
  try {
    const {time = null, level = null, message, ...fields} = JSON.parse(line)
    if (typeof message === 'string') return {time, level, message, fields}
  } catch {
    // V8's crash output is not JSON.
  }
  return {time: null, level: null, message: line, fields: {}}
}

function completeLines(text: string): {lines: string[]; rest: string} {
  const lines = text.split('\n')
  const rest = lines.pop() ?? ''
  return {lines: lines.filter(Boolean), rest}
}

interface Position {
  /** Inode number, which a rename does not change. */
  readonly id: number
  readonly size: number
}

async function positionAtEnd(file: string): Promise<Position> {
  const found = await stat(file).catch(() => undefined)
  return {id: found?.ino ?? 0, size: found?.size ?? 0}
}

/** Empty when another file has taken its place. */
async function readFrom(file: string, position: Position): Promise<Buffer> {
  const handle = await open(file).catch(() => undefined)
  if (!handle) return Buffer.alloc(0)
  try {
    const {ino, size} = await handle.stat()
    const buffer = Buffer.alloc(ino === position.id ? Math.max(0, size - position.size) : 0)
    const {bytesRead} = await handle.read(buffer, 0, buffer.length, position.size)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

async function readIfExists(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '')
}

import {open, readFile, stat} from 'node:fs/promises'
import {setTimeout as sleep} from 'node:timers/promises'
import {rotatedLog} from './log.js'

/** One line of the log; a crash may leave lines without time and level. */
export interface LogEntry {
  readonly time: string | null
  readonly level: string | null
  readonly message: string
  /** Whatever else the line says. */
  readonly fields: Readonly<Record<string, unknown>>
}

const POLL_INTERVAL_MS = 200

/** The last lines of the log, oldest first. */
export async function tailLog(file: string, count: number): Promise<LogEntry[]> {
  const texts = await Promise.all([rotatedLog(file), file].map(readIfThere))
  const lines = texts.join('').split('\n').filter(Boolean)
  return lines.slice(Math.max(0, lines.length - count)).map(parseLine)
}

/** The last lines, then every line as it is written, across the change to a new file, until the signal ends it. */
export async function* followLog(file: string, count: number, signal: AbortSignal): AsyncGenerator<LogEntry> {
  const older = await readIfThere(rotatedLog(file))
  let {id} = await statOf(file)
  const begin = await readFrom(file, {id, size: 0})
  let size = begin.length
  let {lines, rest} = wholeLines(older + begin)
  lines = lines.slice(Math.max(0, lines.length - count))
  for (;;) {
    for (const line of lines) yield parseLine(line)
    await sleep(POLL_INTERVAL_MS, undefined, {signal}).catch(() => {})
    if (signal.aborted) return
    const now = await statOf(file)
    if (now.id !== id || now.size < size) {
      rest += await readFrom(rotatedLog(file), {id, size})
      id = now.id
      size = 0
    }
    const bytes = await readFrom(file, {id, size})
    size += bytes.length
    ;({lines, rest} = wholeLines(rest + bytes))
  }
}

/** The lines that have an end, and what comes after them. */
function wholeLines(text: string): {lines: string[]; rest: string} {
  const lines = text.split('\n')
  const rest = lines.pop() ?? ''
  return {lines: lines.filter(Boolean), rest}
}

/** Reads a line of the log. */
export function parseLine(line: string): LogEntry {
  try {
    const {time = null, level = null, message, ...fields} = JSON.parse(line)
    if (typeof message === 'string') return {time, level, message, fields}
  } catch {
    // What the engine of JavaScript itself says before it goes down is no JSON.
  }
  return {time: null, level: null, message: line, fields: {}}
}

interface Position {
  /** Number of the file, which a rename does not change. */
  readonly id: number
  readonly size: number
}

async function statOf(file: string): Promise<Position> {
  const found = await stat(file).catch(() => undefined)
  return {id: found?.ino ?? 0, size: found?.size ?? 0}
}

/** The rest of a file from a position on; nothing when the file is another one by now. */
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

async function readIfThere(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '')
}

import {appendFileSync, chmodSync, renameSync, statSync} from 'node:fs'

export type LogLevel = 'info' | 'warn' | 'error'

/** Writes one line of the stack's log. */
export type WriteLog = (level: LogLevel, message: string, fields?: Readonly<Record<string, unknown>>) => void

// Two files of this size at most: enough for days of a quiet stack, and nothing on a disk.
const FILE_BYTES = 5 * 1024 * 1024

/** Name of the older of the two files. */
export function rotatedLog(file: string): string {
  return `${file}.1`
}

/**
 * A log of JSON lines that never grows beyond two files. Written at once and in order: what a dying process said last is
 * what one wants to read.
 */
export function openLog(file: string, clock: () => number, maxBytes = FILE_BYTES): WriteLog {
  let size = sizeOf(file)
  return (level, message, fields = {}) => {
    const head = {time: new Date(clock()).toISOString(), level, message}
    const line = `${JSON.stringify({...head, ...fields, ...head})}\n` // in front, and not to be overruled
    try {
      if (size > 0 && size + Buffer.byteLength(line) > maxBytes) {
        renameSync(file, rotatedLog(file))
        size = 0
      }
      appendFileSync(file, line, {mode: 0o600})
      if (size === 0) chmodSync(file, 0o600)
      size += Buffer.byteLength(line)
    } catch {
      // A full disk must not end the stack because of its log.
    }
  }
}

function sizeOf(file: string): number {
  return statSync(file, {throwIfNoEntry: false})?.size ?? 0
}

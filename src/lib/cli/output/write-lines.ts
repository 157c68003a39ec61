import {once} from 'node:events'
import {safeLine} from './paint.js'

/** Characters that are written at a time. */
const CHUNK = 65_536

/** Writes lines to stdout no faster than they are read there, so that long lists do not pile up in memory. */
export async function writeLines(lines: Iterable<string>): Promise<void> {
  let text = ''
  for (const line of lines) {
    text += `${safeLine(line)}\n`
    if (text.length < CHUNK) continue
    if (!process.stdout.write(text)) await once(process.stdout, 'drain')
    text = ''
  }
  process.stdout.write(text)
}

import {once} from 'node:events'
import {safeLine} from './paint.js'

/** Characters that are written at a time. */
const CHUNK = 65_536

type Source = Iterable<string> | AsyncIterable<string>

/** Writes lines to stdout no faster than they are read there, so that long lists do not pile up in memory. */
export async function writeLines(lines: Source, onBegin?: () => void): Promise<void> {
  await writeTexts(lines, line => `${safeLine(line)}\n`, onBegin)
}

/** The same for documents whose text affects no terminal already, with its line breaks. */
export async function writeDocument(texts: Source, onBegin?: () => void): Promise<void> {
  await writeTexts(texts, text => text, onBegin)
}

/**
 * `onBegin` is called before the first write: an error until then leaves nothing behind, and one after it everything that
 * came before.
 */
async function writeTexts(
  source: Source,
  textOf: (each: string) => string,
  onBegin: () => void = () => {},
): Promise<void> {
  let text = ''
  let hasBegun = false
  const write = (): boolean => {
    if (!hasBegun) onBegin()
    hasBegun = true
    return process.stdout.write(text)
  }
  /** The promise of a reader that is slower; `undefined`: nothing to wait for. */
  const add = (each: string): Promise<unknown> | undefined => {
    text += textOf(each)
    if (text.length < CHUNK) return undefined
    const isTaken = write()
    text = ''
    return isTaken ? undefined : once(process.stdout, 'drain')
  }
  try {
    if (Symbol.iterator in source) {
      for (const each of source) {
        const slower = add(each)
        if (slower) await slower
      }
    } else for await (const each of source) await add(each)
  } catch (error) {
    if (hasBegun) write()
    throw error
  }
  write()
}

import {once} from 'node:events'
import {stripVTControlCharacters} from 'node:util'
import {colorize} from '@oclif/core/ux'
import {shownText} from '../../core/text/printable.js'
import {textWidth} from '../../core/text/text-width.js'
import {wrapped} from '../../core/text/wrap.js'

/** Stands for ESC in our own colours. Random, so outside text cannot fake it: other escapes are shown, not sent. */
const OWN_ESCAPE = `\u0000${Math.random().toString(36).slice(2)}\u0000`

/** Print the result with `safeLine`. */
export function paint(colour: string, text: string): string {
  return colorize(colour, shownText(text)).replaceAll('\u001b', OWN_ESCAPE)
}

/** Only colours of `paint` take effect; other control characters are shown. */
export function safeLine(line: string): string {
  return line.split(OWN_ESCAPE).map(shownText).join('\u001b')
}

export function plainLine(line: string): string {
  return stripVTControlCharacters(safeLine(line))
}

/** Breaks a line at spaces if it is wider than the terminal, which would split words. In a pipe, lines stay whole. */
export function fittedLines(line: string, {isTTY, columns = 0}: {isTTY?: boolean; columns?: number}): string[] {
  return isTTY && columns > 0 ? wrapped(line, columns, text => textWidth(plainLine(text))) : [line]
}

/** In characters. */
const CHUNK = 65_536

type Source = Iterable<string> | AsyncIterable<string>

/** Waits for slow readers of stdout, so that long lists do not pile up in memory. */
export async function writeLines(lines: Source, onBegin?: () => void): Promise<void> {
  await writeTexts(lines, line => `${safeLine(line)}\n`, onBegin)
}

/** For texts that are already safe for terminals and contain their line breaks. */
export async function writeDocument(texts: Source, onBegin?: () => void): Promise<void> {
  await writeTexts(texts, text => text, onBegin)
}

/** `onBegin` runs before the first write: earlier errors leave no output, later ones keep the lines before them. */
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

let needsReader = true

/** For commands that change something: a reader that leaves (`| head -1`) does not end them. Their output is dropped. */
export function finishWithoutReader(): void {
  if (!needsReader) return
  needsReader = false
  for (const stream of [process.stdout, process.stderr]) {
    const others = stream.listeners('error') as ((error: NodeJS.ErrnoException) => void)[]
    stream.removeAllListeners('error')
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'ERR_STREAM_DESTROYED') for (const other of others) other(error)
    })
  }
}

import {printableText} from './printable.js'
import {textStart, textWidth} from './text-width.js'

const HANGING = 4

/** Breaks at column gaps first (two or more spaces), then at spaces. */
export function wrapped(text: string, width: number): string[] {
  if (textWidth(text) <= width) return [text]
  const [first = '', ...rest] = text.split(/(?<=\S) {2,}(?=\S)/)
  const own = ' '.repeat((/^ */.exec(text)?.[0].length ?? 0) + HANGING)
  return [first, ...rest.map(part => own + part)].flatMap(part => brokenAtSpaces(part, width))
}

function brokenAtSpaces(text: string, width: number): string[] {
  const indent = ' '.repeat((/^ */.exec(text)?.[0].length ?? 0) + HANGING)
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/(?<= )(?=\S)/)) {
    if (line.trim() !== '' && textWidth(line + word.trimEnd()) > width) {
      lines.push(line.trimEnd())
      line = indent
    }
    line += word
  }
  return [...lines, line.trimEnd()]
}

/** A shell joins lines ending in a backslash, but not inside quotes: an overlong quoted word is cut without one. */
export function wrappedCommand(words: readonly string[], width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of withValues(words.map(printableText))) {
    if (line !== '' && textWidth(line) + 1 + textWidth(word) + BETWEEN_WORDS.length > width) {
      lines.push(line + BETWEEN_WORDS)
      line = ''
    }
    line = line === '' ? word : `${line} ${word}`
    const mark = word.includes("'") ? '' : INSIDE_A_WORD
    while (textWidth(line) + BETWEEN_WORDS.length > width) {
      // Leave something for the next line: the next word needs a space before it.
      const start = textStart(line, Math.max(1, Math.min(width - mark.length, textWidth(line) - 1)))
      lines.push(start + mark)
      line = line.slice(start.length)
    }
  }
  return line === '' ? lines : [...lines, line]
}

const BETWEEN_WORDS = ' \\'
const INSIDE_A_WORD = '\\'

function withValues(words: readonly string[]): string[] {
  const pieces: string[] = []
  for (const word of words) {
    const last = pieces.at(-1)
    const isValue = last?.startsWith('--') && !last.includes(' ') && !word.startsWith('--')
    if (isValue) pieces.splice(-1, 1, `${last} ${word}`)
    else pieces.push(word)
  }
  return pieces
}

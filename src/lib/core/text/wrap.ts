import {shownText} from './printable.js'
import {textStart, textWidth} from './text-width.js'

const HANGING = 4

/**
 * Breaks at column gaps first (two or more spaces), then at spaces. The value of a short label stays beside it.
 * Commands break where a shell joins them again. Longer words overflow. `measure` gives the visible width.
 */
export function wrapped(text: string, width: number, measure = textWidth): string[] {
  if (measure(text) <= width) return [text]
  const [first = '', ...rest] = text.split(/(?<=\S) {2,}(?=\S)/)
  const value = rest.length === 1 ? (rest[0] as string) : ''
  const column = measure(text) - measure(value)
  if (value !== '' && column <= width / 2) return filled(wordsIn(text), {width, measure, hanging: column})
  const own = ' '.repeat(indentOf(text) + HANGING)
  return [first, ...rest.map(part => own + part)].flatMap(part => {
    const hanging = indentOf(part) + HANGING
    if (!part.trimStart().startsWith('zael ')) return filled(wordsIn(part), {width, measure, hanging})
    const words = part.match(/(?:'[^']*'|[^\s'])+/g) ?? []
    return filled([' '.repeat(indentOf(part)), ...words.map(word => `${word} `)], {
      width,
      measure,
      hanging,
      end: BETWEEN_WORDS,
    })
  })
}

const indentOf = (text: string): number => /^ */.exec(text)?.[0].length ?? 0

const wordsIn = (text: string): string[] => text.split(/(?<= )(?=\S)/)

interface Filling {
  readonly width: number
  readonly measure: (text: string) => number
  readonly hanging: number
  /** Ends every line but the last. */
  readonly end?: string
}

function filled(words: readonly string[], {width, measure, hanging, end = ''}: Filling): string[] {
  const lines: string[] = []
  let line = ''
  for (const [at, word] of words.entries()) {
    const isLast = at === words.length - 1
    if (line.trim() !== '' && measure(line + word.trimEnd() + (isLast ? '' : end)) > width) {
      lines.push(line.trimEnd() + end)
      line = ' '.repeat(hanging)
    }
    line += word
  }
  return [...lines, line.trimEnd()]
}

/** A shell joins lines ending in a backslash, but not inside quotes: an overlong quoted word is cut without one. */
export function wrappedCommand(words: readonly string[], width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of withValues(words.map(shownText))) {
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

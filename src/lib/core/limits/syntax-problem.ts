import {InvalidInput} from '../errors.js'
import {asSentence} from '../text/text.js'

export interface Piece {
  readonly whole: string
  readonly text: string
  readonly at: number
}

const SYNTAX_HINT =
  'Write NAME=RATE[/PERIOD][:BURST], for example rpm=100/min, tpd=1M/day, rpm=10/sec:50; for quotas ' +
  'rpd=10k/day@Europe/Berlin, usd=$500/month@UTC, rpd=10k@"0 9 * * 1-5", session=200/5h!.'

/** Shows the offending piece under the text, so that a long list of limits needs no counting. */
export function syntaxError({whole, text, at}: Piece, why: string): InvalidInput {
  const length = Math.max(1, text.length)
  const sentence = asSentence(`Cannot read the limit "${whole}": ${why}`)
  const message = `${sentence}\n  ${whole}\n  ${' '.repeat(at)}${'^'.repeat(length)}`
  return new InvalidInput('limit.syntax', message, {hint: SYNTAX_HINT, details: {text: whole, at, length, why}})
}

export function slicePiece(piece: Piece, from: number, to = piece.text.length): Piece {
  return {whole: piece.whole, text: piece.text.slice(from, to), at: piece.at + from}
}

/** The pieces between the separators that are not in quotes. */
export function splitPiece(piece: Piece, separator: string): readonly [Piece, ...Piece[]] {
  const starts = [-1]
  let isQuoted = false
  for (const [index, character] of piece.text.split('').entries()) {
    if (character === '"') isQuoted = !isQuoted
    if (character === separator && !isQuoted) starts.push(index)
  }
  const [first, ...more] = starts.map((start, index) => slicePiece(piece, start + 1, starts[index + 1]))
  return [first ?? piece, ...more]
}

/** The part before the first separator that is not in quotes, and the part after it, if there is one. */
export function cutPiece(piece: Piece, separator: string): [before: Piece, after: Piece | undefined] {
  const [before] = splitPiece(piece, separator)
  const {length} = before.text
  return [before, length === piece.text.length ? undefined : slicePiece(piece, length + 1)]
}

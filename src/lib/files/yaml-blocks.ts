export interface Block {
  /** With the ends of its lines. */
  readonly text: string
  /** Of its first line, from 1. */
  readonly line: number
}

/** A text cannot be read block by block: from this line on, blocks may depend on each other. */
export class NotInBlocks extends Error {
  constructor(readonly line: number) {
    super(`not in blocks from line ${line} on`)
  }
}

/** Characters; what an entity states is a few hundred, and a longer one is searched again with every piece. */
const LONGEST_BLOCK = 2 ** 20

/** Before a line that is indented by nothing or by two spaces, and is no comment. Only ` ` indents: a key may begin with U+00A0. */
const BOUNDARY = /\n(?=(?: {2})?[^ #\n])/g

/**
 * Splits a text where a key of its first or second level may begin: each block has the line of one key and what belongs to
 * it. Only the current block is in memory. The text comes in pieces, cut anywhere. Throws `NotInBlocks` for a very long one.
 */
export function* blocksOf(pieces: Iterable<string>): Generator<Block, void> {
  let rest = ''
  let line = 1
  for (const piece of pieces) {
    rest += piece
    let from = 0
    for (const {index} of rest.matchAll(BOUNDARY)) {
      const text = rest.slice(from, index + 1)
      yield {text, line}
      line += lineCount(text)
      from = index + 1
    }
    rest = rest.slice(from)
    if (rest.length > LONGEST_BLOCK) throw new NotInBlocks(line)
  }
  if (rest !== '') yield {text: rest, line}
}

function lineCount(text: string): number {
  let count = 0
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count++
  return count
}

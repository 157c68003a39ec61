export interface Block {
  readonly text: string
  readonly line: number
}

/** Blocks may depend on each other from this line on. */
export class NotInBlocks extends Error {
  constructor(readonly line: number) {
    super(`not in blocks from line ${line} on`)
  }
}

/** Characters. An entity has a few hundred; a longer block is searched again with every piece. */
const LONGEST_BLOCK = 2 ** 20

/** A line indented by nothing or two spaces that is no comment. Only ` ` indents: a key may begin with U+00A0. */
const BOUNDARY = /\n(?=(?: {2})?[^ #\n])/g

/** Splits where a key of the first or second level may begin. Throws `NotInBlocks` for a very long block. */
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

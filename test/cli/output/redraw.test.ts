import {describe, expect, it} from 'vitest'
import {redrawer} from '../../../src/lib/cli/acquire/why-run.js'

/** The output for each of the given texts. */
function written(columns: number, rows: number, ...texts: readonly (readonly string[])[]): string[] {
  const writes: string[] = []
  const redraw = redrawer({columns, rows, write: text => writes.push(text)})
  for (const lines of texts) redraw(lines)
  return writes
}

describe('redrawing', () => {
  it('moves up and erases in the same write', () => {
    expect(written(80, 24, ['a', 'b'], ['c'], ['d'])).toEqual([
      'a\nb\n',
      '\u001b[2A\r\u001b[Jc\n',
      '\u001b[1A\r\u001b[Jd\n',
    ])
  })

  it('breaks long lines at spaces, cuts long words, and omits lines that would scroll the screen', () => {
    expect(written(10, 9, ['rpm of user-1'])).toEqual(['rpm of\n    user-1\n'])
    expect(written(3, 3, ['abcdef', '漢字', 'x', 'y'], ['z'])).toEqual(['abc\n漢\n', '\u001b[2A\r\u001b[Jz\n'])
  })

  it('escapes stored names', () => {
    expect(written(80, 24, ['\u001b[2J'])).toEqual(['\\x1b[2J\n'])
  })
})

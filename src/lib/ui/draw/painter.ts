import type {Line, Segment} from './line.js'
import type {Palette} from './palette.js'

const CSI = '\u001b['

/**
 * A frame is shown at once by terminals that can (2026), and what is wider than it seems is cut off, not wrapped into
 * the next line (7). The cursor waits in the corner: a line break that Ink writes when the size changes does no harm
 * there.
 */
const BEGIN = `${CSI}?2026h${CSI}?7l`
const END = `${CSI}H${CSI}?7h${CSI}?2026l`
const ERASE_REST = `${CSI}K`

/** Text of which every character surely takes one column: Latin, and the symbols of the view. */
const ONE_COLUMN_EACH = /^[\x20-\x7e\xa1-\xac\xae-\xff–‖…↑↓▀-▟●○▲▸◂✖]*$/

/**
 * Paints lines of text on a terminal, of each only the segments that have changed. Ink could do it, but it takes every
 * character of the screen apart several times for each frame, which takes longer than all the rest.
 */
export class Painter {
  readonly #write: (text: string) => void
  readonly #palette: Palette
  /** The lines on the terminal, as far as is known. */
  #shown: readonly Line[] = []

  constructor(write: (text: string) => void, palette: Palette) {
    this.#write = write
    this.#palette = palette
  }

  /** Makes the terminal show these lines, from its first one on, with one write or none. */
  paint(lines: readonly Line[]): void {
    const changes = lines.map((line, row) => this.#change(row, line)).join('')
    this.#shown = lines
    if (changes !== '') this.#write(BEGIN + changes + END)
  }

  /** Takes nothing for granted any more: the next frame is painted as a whole. */
  forget(): void {
    this.#shown = []
  }

  /** What makes one line of what is shown in its row. */
  #change(row: number, line: Line): string {
    const shown = this.#shown[row]
    if (shown && isSame(shown, line)) return ''
    let change = ''
    let column = 0
    let cursor: number | undefined
    const goTo = () => (cursor === column ? '' : `${CSI}${row + 1};${column + 1}H`)
    for (const [at, segment] of line.entries()) {
      const before = shown?.[at]
      if (!before || !fits(segment, before)) return change + goTo() + ERASE_REST + this.#styled(line.slice(at))
      const end = column + segment.text.length
      if (!isSameSegment(segment, before)) {
        change += goTo() + this.#styled([segment])
        cursor = end
      }
      column = end
    }
    return shown?.length === line.length ? change : change + goTo() + ERASE_REST
  }

  #styled(segments: Line): string {
    return segments
      .map(({text, tone}) => {
        const style = this.#palette[tone]
        return style === '' ? text : `${CSI}${style}m${text}${CSI}m`
      })
      .join('')
  }
}

/** Whether a segment takes just the room of another; behind a character of unknown width nobody knows the column. */
function fits({text}: Segment, {text: before}: Segment): boolean {
  return text.length === before.length && ONE_COLUMN_EACH.test(text) && ONE_COLUMN_EACH.test(before)
}

function isSame(a: Line, b: Line): boolean {
  return a.length === b.length && a.every((segment, at) => isSameSegment(segment, b[at]))
}

const isSameSegment = (a: Segment, b: Segment | undefined): boolean => a.text === b?.text && a.tone === b.tone

import type {Line, Segment} from './line.js'
import type {Palette} from './palette.js'

const CSI = '\u001b['

/**
 * Synchronized output where supported (2026); lines that are wider than computed are cut off, not wrapped (7). The cursor
 * stays in the corner, where a line break that Ink writes on a resize does no harm.
 */
const BEGIN = `${CSI}?2026h${CSI}?7l`
const END = `${CSI}H${CSI}?7h${CSI}?2026l`
const ERASE_REST = `${CSI}K`

/** Text whose characters certainly take one column each: Latin, and the symbols of the view. */
const ONE_COLUMN_EACH = /^[\x20-\x7e\xa1-\xac\xae-\xff–‖…↑↓▀-▟●○▲▸◂✖]*$/

/**
 * Writes lines of text to a terminal, only the segments that have changed. Ink could do it, but it processes every character
 * of the screen several times per frame, which takes longer than everything else.
 */
export class TerminalRenderer {
  readonly #write: (text: string) => void
  readonly #palette: Palette
  /** The lines on the terminal, as far as known. */
  #shown: readonly Line[] = []

  constructor(write: (text: string) => void, palette: Palette) {
    this.#write = write
    this.#palette = palette
  }

  /** Makes the terminal show these lines from its first row on, with at most one write. */
  render(lines: readonly Line[]): void {
    const changes = lines.map((line, row) => this.#change(row, line)).join('')
    this.#shown = lines
    if (changes !== '') this.#write(BEGIN + changes + END)
  }

  /** Has the next frame written as a whole. */
  invalidate(): void {
    this.#shown = []
  }

  /** The output that turns the shown row into this line. */
  #change(row: number, line: Line): string {
    const shown = this.#shown[row]
    if (shown && isSame(shown, line)) return ''
    let change = ''
    let column = 0
    let cursor: number | undefined
    const goTo = () => (cursor === column ? '' : `${CSI}${row + 1};${column + 1}H`)
    for (const [at, segment] of line.entries()) {
      const before = shown?.[at]
      if (!before || !hasSameWidth(segment, before)) return change + goTo() + ERASE_REST + this.#styled(line.slice(at))
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

/** Whether a segment takes exactly the columns of another; after a character of unknown width the column is unknown. */
function hasSameWidth({text}: Segment, {text: before}: Segment): boolean {
  return text.length === before.length && ONE_COLUMN_EACH.test(text) && ONE_COLUMN_EACH.test(before)
}

function isSame(a: Line, b: Line): boolean {
  return a.length === b.length && a.every((segment, at) => isSameSegment(segment, b[at]))
}

const isSameSegment = (a: Segment, b: Segment | undefined): boolean => a.text === b?.text && a.tone === b.tone

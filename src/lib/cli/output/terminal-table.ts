import Table from 'cli-table3'
import {cutText, graphemesOf, textWidth} from '../../core/text/text-width.js'
import {paint} from './lines.js'
import {type Cell, cellText, GAP, type TableLayout} from './table-layout.js'

const NOTHING = ['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right']
const NO_BORDERS = [...NOTHING, 'left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'].map(name => [name, ''])

/** Import this file lazily: it loads cli-table3. */
export function drawnLines({columns}: TableLayout, rows: readonly (readonly Cell[])[], header: boolean): string[] {
  const standIns = new StandIns()
  const table = new Table({
    chars: {...Object.fromEntries(NO_BORDERS), middle: GAP},
    style: {head: [], border: [], 'padding-left': 0, 'padding-right': 0},
    colWidths: columns.map(({width}) => width),
    colAligns: columns.map(({isRight}) => (isRight ? 'right' : 'left')),
  })
  const texts = rows.map(row => columns.map(({at}) => cellText(row[at])))
  for (const line of header ? [columns.map(column => column.header), ...texts] : texts) {
    table.push(line.map((text, position) => standIns.replace(cutText(text, columns[position]?.width ?? 0))))
  }
  const [first = '', ...rest] = table
    .toString()
    .split('\n')
    .map(line => standIns.restore(line.trimEnd()))
  return [header ? paint('dim', first) : first, ...rest]
}

/** cli-table3 miscounts newer emoji and combining marks. It gets one stand-in per column; restore them in order. */
class StandIns {
  readonly #characters: string[] = []
  #restored = 0

  replace(text: string): string {
    return graphemesOf(text)
      .map(character => {
        if (/^[ -~]$/.test(character)) return character
        this.#characters.push(character)
        return `\uE000${'\uE001'.repeat(textWidth(character) - 1)}`
      })
      .join('')
  }

  restore(line: string): string {
    return line.replace(/\uE000\uE001*/g, () => this.#characters[this.#restored++] ?? '')
  }
}

import {textStart} from '../../core/text/text-width.js'
import {safeLine} from './paint.js'

export interface DrawnTerminal {
  readonly columns?: number
  readonly rows?: number
  write(text: string): unknown
}

/**
 * Draws lines over those drawn before, in one write, so that nothing flickers. What does not fit on the screen is cut off:
 * lines that were scrolled away cannot be drawn over.
 */
export function redrawer(terminal: DrawnTerminal): (lines: readonly string[]) => void {
  let drawn = 0
  return lines => {
    const {columns = 80, rows = 24} = terminal
    const visible = lines.slice(0, Math.max(1, rows - 1)).map(line => textStart(safeLine(line), columns))
    const up = drawn === 0 ? '' : `\u001b[${drawn}A\r\u001b[J`
    terminal.write(`${up}${visible.join('\n')}\n`)
    drawn = visible.length
  }
}

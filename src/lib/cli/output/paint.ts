import {stripVTControlCharacters} from 'node:util'
import {colorize} from '@oclif/core/ux'
import {printableText} from '../../core/text/printable.js'

/**
 * Stands for the escape character of our own colours until the line is printed. It is random, so no text from outside
 * contains it: escape characters that do not come from `paint` are shown, not sent.
 */
const OWN_ESCAPE = `\u0000${Math.random().toString(36).slice(2)}\u0000`

/** Text in a colour, if the terminal has colours; printed by `safeLine`. */
export function paint(colour: string, text: string): string {
  return colorize(colour, printableText(text)).replaceAll('\u001b', OWN_ESCAPE)
}

/** One line for stdout or stderr: nothing in it takes effect but our own colours. */
export function safeLine(line: string): string {
  return line.split(OWN_ESCAPE).map(printableText).join('\u001b')
}

/** One line without our own colours, for a place that has colours of its own. */
export function plainLine(line: string): string {
  return stripVTControlCharacters(safeLine(line))
}

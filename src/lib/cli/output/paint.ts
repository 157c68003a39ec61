import {stripVTControlCharacters} from 'node:util'
import {colorize} from '@oclif/core/ux'
import {printableText} from '../../core/text/printable.js'

/** Stands for ESC in our own colours. Random, so outside text cannot fake it: other escapes are shown, not sent. */
const OWN_ESCAPE = `\u0000${Math.random().toString(36).slice(2)}\u0000`

/** Print the result with `safeLine`. */
export function paint(colour: string, text: string): string {
  return colorize(colour, printableText(text)).replaceAll('\u001b', OWN_ESCAPE)
}

/** Only colours of `paint` take effect; other control characters are shown. */
export function safeLine(line: string): string {
  return line.split(OWN_ESCAPE).map(printableText).join('\u001b')
}

export function plainLine(line: string): string {
  return stripVTControlCharacters(safeLine(line))
}

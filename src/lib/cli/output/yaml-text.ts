import {Document, isScalar, stringify, visit} from 'yaml'
import {escapeHidden} from '../../core/text/printable.js'
import {plainYaml} from '../../files/plain-yaml.js'

/** Safe for terminals: strings with hidden characters are quoted and escaped, and parse to the same text. */
export function yamlText(value: unknown, options: {lineWidth?: number; compat?: 'yaml-1.1'} = {}): string {
  const plain = plainYaml(value)
  if (plain !== undefined) return plain
  const text = stringify(value, options)
  return hasHidden(text) ? quoted(new Document(value, options), options) : text
}

function quoted(document: Document, options: {lineWidth?: number}): string {
  visit(document, {
    Scalar: (_, node) => {
      if (isScalar(node) && typeof node.value === 'string' && hasHidden(node.value)) node.type = 'QUOTE_DOUBLE'
    },
  })
  return escapeHidden(document.toString(options), character => (character === '\n' ? character : escapeOf(character)))
}

const hasHidden = (text: string): boolean => {
  let found = false
  escapeHidden(text, character => {
    found ||= character !== '\n'
    return character
  })
  return found
}

function escapeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const digits = code.toString(16)
  return code < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`
}

export interface TextInput {
  readonly before: string
  readonly after: string
}

export type TextEdit =
  | {readonly type: 'insert'; readonly text: string}
  | {readonly type: 'erase'}
  | {readonly type: 'empty'}
  | {readonly type: 'go'; readonly to: 'left' | 'right' | 'start' | 'end'}

export const inputOf = (text: string): TextInput => ({before: text, after: ''})

export const textOf = ({before, after}: TextInput): string => before + after

/** The text after an edit. `erase` takes the character before the cursor, `empty` everything. */
export function edited({before, after}: TextInput, edit: TextEdit): TextInput {
  switch (edit.type) {
    case 'insert':
      return {before: before + edit.text, after}
    case 'erase':
      return {before: Array.from(before).slice(0, -1).join(''), after}
    case 'empty':
      return inputOf('')
    case 'go':
      return moved({before, after}, edit.to)
  }
}

function moved({before, after}: TextInput, to: 'left' | 'right' | 'start' | 'end'): TextInput {
  if (to === 'start') return {before: '', after: before + after}
  if (to === 'end') return {before: before + after, after: ''}
  const [left, right] = [Array.from(before), Array.from(after)]
  return to === 'left'
    ? {before: left.slice(0, -1).join(''), after: (left.at(-1) ?? '') + after}
    : {before: before + (right[0] ?? ''), after: right.slice(1).join('')}
}

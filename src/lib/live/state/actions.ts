export type ActionKind = 'reset' | 'boost' | 'block' | 'unblock'

/** The row when the key was pressed; does not follow the cursor. */
export interface ActionTarget {
  readonly entity: string
  readonly resource: string
  readonly limit: string | undefined
  readonly isDisabled: boolean
  readonly refusingParents: readonly string[]
}

export interface ActionQuestion {
  /** The resource that is affected. `null`: all resources of the entity. Default: the row's. */
  readonly resource?: string | null
  readonly command: readonly string[]
  readonly lines: readonly string[]
  readonly perform: () => Promise<readonly string[]>
}

/** Only a question's `perform` writes. The view shows the messages of errors. */
export interface BucketActions {
  boostText(target: ActionTarget): Promise<string>
  /** `text`: limits and an end, for a boost. */
  ask(kind: ActionKind, target: ActionTarget, text: string | undefined): Promise<ActionQuestion>
}

export function problemLines(error: unknown): string[] {
  if (!(error instanceof Error)) return [String(error)]
  const hint = 'hint' in error && typeof error.hint === 'string' ? [error.hint] : []
  return [error.message, ...hint].flatMap(text => text.split('\n'))
}

/** In order: look up the change, edit a boost, ask, perform, show the outcome. */
const ACTION_MODES = ['looking', 'editing', 'asking', 'running', 'over'] as const

export type ActionMode = (typeof ACTION_MODES)[number]

export const isActionMode = (mode: string): mode is ActionMode => ACTION_MODES.some(each => each === mode)

export interface OpenAction {
  readonly kind: ActionKind
  readonly target: ActionTarget
  readonly over: 'list' | 'detail' | 'why'
  readonly top: number
  readonly input: TextInput | undefined
  readonly question: ActionQuestion | undefined
  readonly outcome: readonly string[]
  readonly isFailed: boolean
}

export type ActionKey = 'reset' | 'boost' | 'switch'

export type ActOnAction =
  | {readonly type: 'act'; readonly kind: ActionKey}
  | {readonly type: 'act-edit'; readonly edit: TextEdit}
  | {readonly type: 'act-submit' | 'act-confirm' | 'act-close'}

export type ActionEvent =
  | {readonly type: 'drafted'; readonly step: number; readonly text: string}
  | {readonly type: 'asked'; readonly step: number; readonly question: ActionQuestion}
  | {readonly type: 'done'; readonly step: number; readonly lines: readonly string[]; readonly atMs: number}
  | {readonly type: 'failed'; readonly step: number; readonly error: unknown; readonly atMs: number}

export interface TextInput {
  readonly before: string
  readonly after: string
}

export type TextEdit =
  | {readonly type: 'insert'; readonly text: string}
  | {readonly type: 'erase' | 'empty'}
  | {readonly type: 'go'; readonly to: 'left' | 'right' | 'start' | 'end'}

export const inputOf = (text: string): TextInput => ({before: text, after: ''})

export const textOf = ({before, after}: TextInput): string => before + after

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

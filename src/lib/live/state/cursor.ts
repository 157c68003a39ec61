/** A position in a list. A selected line is followed by its id, wherever sorting moves it. */
export interface Cursor {
  /** `undefined` until a line is selected: the cursor stays on the first line, whichever that is. */
  readonly id: string | undefined
  /** Last index of the selected line; if the line disappears, the cursor stays at this index. */
  readonly index: number
  /** The first line on the screen. */
  readonly top: number
}

/** Half a page is `pages: 0.5`. */
export type Move = {readonly by: number} | {readonly to: 'start' | 'end'} | {readonly pages: number}

export const AT_START: Cursor = {id: undefined, index: 0, top: 0}

/** The cursor on the current list, with its line inside the window of `height` lines; the same object if that changes nothing. */
export function resolveCursor(cursor: Cursor, ids: readonly string[], height: number): Cursor {
  const found = cursor.id === undefined ? 0 : ids.indexOf(cursor.id)
  const index = within(found === -1 ? cursor.index : found, ids.length - 1)
  const top = windowTop(cursor.top, index, ids.length, height)
  return index === cursor.index && top === cursor.top ? cursor : {id: cursor.id, index, top}
}

export function move(cursor: Cursor, how: Move, ids: readonly string[], height: number): Cursor {
  const from = resolveCursor(cursor, ids, height).index
  const index = within(targetOf(how, from, ids.length, height), ids.length - 1)
  return {id: ids[index], index, top: windowTop(cursor.top, index, ids.length, height)}
}

export function scroll(top: number, how: Move, length: number, height: number): number {
  return within(targetOf(how, top, length, height), length - height)
}

function targetOf(how: Move, from: number, length: number, height: number): number {
  if ('by' in how) return from + how.by
  if ('to' in how) return how.to === 'start' ? 0 : length - 1
  return from + Math.sign(how.pages) * Math.max(1, Math.floor(Math.abs(how.pages) * height))
}

/** Moves the window as little as possible; no empty lines at the end of a long list. */
function windowTop(top: number, index: number, length: number, height: number): number {
  const lowest = Math.max(0, index - Math.max(1, height) + 1)
  return within(Math.min(Math.max(top, lowest), index), Math.max(0, length - Math.max(1, height)))
}

const within = (value: number, last: number): number => Math.max(0, Math.min(value, last))

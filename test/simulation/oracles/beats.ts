import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {TableWrite} from '../world/table-writes.js'

interface Beat {
  readonly text: string
  readonly atMs: number
}

interface Heard {
  /** The last three beats, oldest first; repeated ones once, with the time of the first. */
  readonly beats: readonly Beat[]
  readonly isDead: boolean
}

/** When the table received the beats of holders, in ms since the start. Read without the library's decoder. */
export class Beats {
  readonly #heard = new Map<string, Heard>()

  observe({changes}: TableWrite, atMs: number): void {
    for (const {after} of changes) {
      const [, holder] = /\/HOLDER#(.*)$/.exec(textOf(after, 'PK')) ?? []
      if (!after || holder === undefined) continue
      const {beats = []} = this.#heard.get(holder) ?? {}
      const text = textOf(after, 'beat')
      const isNew = text !== '' && beats.at(-1)?.text !== text
      this.#heard.set(holder, {beats: isNew ? [...beats.slice(-2), {text, atMs}] : beats, isDead: 'dead' in after})
    }
  }

  isDeclaredDead(holder: string): boolean {
    return this.#heard.get(holder)?.isDead === true
  }

  lastMs(holder: string): number | undefined {
    return this.#heard.get(holder)?.beats.at(-1)?.atMs
  }

  /** Every beat that the holder may count from was sent after this instant. */
  countedFromMs(holder: string): number | undefined {
    const {beats = []} = this.#heard.get(holder) ?? {}
    // The last beat may be unanswered; the one before was sent after the answer to its predecessor.
    return beats.length === 3 ? beats[0]?.atMs : undefined
  }
}

function textOf(item: Item | undefined, name: string): string {
  const value = item?.[name]
  return value && 'S' in value ? value.S : ''
}

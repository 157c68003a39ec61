import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {bucketId, consumedBy, type TableWrite} from '../world/table-writes.js'
import type {World} from '../world/world.js'
import type {Verdicts} from './verdicts.js'

/** A process that was stopped for this long may count as dead, in ms. */
const LONG_PAUSE_MS = 17_500

interface Reserved {
  readonly process: number
  readonly kills: number
}

/** Tokens that came back because their process died, or seemed dead. */
export interface ReturnedTokens {
  /** Bucket and limit. */
  readonly key: string
  readonly milli: bigint
  /** Whether the process lives on, so that its lease charges them again. */
  readonly isChargedAgain: () => boolean
}

/** S13, by the stored reservations. */
export class ReservedTokens {
  readonly returned: ReturnedTokens[] = []
  readonly #world: World
  readonly #verdicts: Verdicts
  /** By key. */
  readonly #open = new Map<string, Reserved>()

  constructor(world: World, verdicts: Verdicts) {
    this.#world = world
    this.#verdicts = verdicts
  }

  observe(write: TableWrite): void {
    for (const {before, after} of write.changes) {
      const key = `${textOf(before ?? after, 'PK')} ${textOf(before ?? after, 'SK')}`
      if (!key.includes(' #RESERVED#')) continue
      const {writer} = write
      if (!before && after?.tokens)
        this.#open.set(key, {process: writer.process, kills: this.#world.processes[writer.process]?.kills ?? 0})
      if (after?.returned) this.#judgeReturn(key, before, after, write)
      if (before?.ended && after?.tokens && !before.tokens)
        this.#verdicts.report('S13-ended', key, 'an ended reservation is open again')
      if (after?.ended || after?.returned) this.#open.delete(key)
    }
  }

  /** Everything is quiet, and another process has looked. */
  checkEnd(): void {
    for (const [key, owner] of this.#open)
      if (this.#isDead(owner))
        this.#verdicts.report('L9-reserved', key, `p${owner.process} is dead, and it is still open`)
  }

  #judgeReturn(key: string, before: Item | undefined, after: Item, {shards}: TableWrite): void {
    const owner = this.#open.get(key)
    if (!before?.tokens || before.returned || before.ended || !owner) {
      this.#verdicts.report('S13-twice', key, 'returned, and it was not open')
      return
    }
    const process = this.#world.processes[owner.process]
    const wasLong = process?.pauses.some(({fromMs, untilMs}) => untilMs - fromMs >= LONG_PAUSE_MS)
    const hasJumps = this.#world.scenario.steps.some(({event}) => event.kind === 'skew')
    if (!this.#isDead(owner) && !wasLong && !process?.wasDisturbed(0) && !hasJumps)
      this.#verdicts.report('S13-living', key, `p${owner.process} lives and its lease is open`)
    const positions: number[] = JSON.parse(textOf(after, 'returned'))
    const tokens: {entity: string; resource: string; limit: string; milli: string}[] = JSON.parse(
      textOf(before, 'tokens'),
    )
    const due = new Map<string, bigint>()
    for (const at of positions) {
      const {entity, resource, limit, milli} = tokens[at] as (typeof tokens)[number]
      const place = `${bucketId(this.#world.namespace, entity, resource)} ${limit}`
      due.set(place, (due.get(place) ?? 0n) + BigInt(milli))
    }
    const given = new Map<string, bigint>()
    for (const change of shards) {
      for (const [limit, milli] of consumedBy(change)) {
        const place = `${change.bucket} ${limit}`
        given.set(place, (given.get(place) ?? 0n) - milli)
        const [was, is] = [
          change.before?.limits.get(limit)?.tokens ?? 0n,
          change.after?.limits.get(limit)?.tokens ?? 0n,
        ]
        if (is - was !== -milli)
          this.#verdicts.report('S13-balance', place, `${is - was} came back, ${-milli} are counted`)
      }
    }
    for (const place of new Set([...due.keys(), ...given.keys()])) {
      const [wanted, got] = [due.get(place) ?? 0n, given.get(place) ?? 0n]
      if (wanted !== got) this.#verdicts.report('S13-amount', place, `${got} of ${wanted} millitokens came back`)
      this.returned.push({key: place, milli: got, isChargedAgain: () => !this.#isDead(owner)})
    }
  }

  #isDead({process, kills}: Reserved): boolean {
    return this.#world.processes[process]?.killedAtMs[kills] !== undefined
  }
}

function textOf(item: Item | undefined, name: string): string {
  const value = item?.[name]
  return value && 'S' in value ? value.S : ''
}

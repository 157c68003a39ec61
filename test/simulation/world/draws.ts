import {seededRandom} from '../../limiter/fixtures/seeded-random.js'

/** Draws from one seeded source, in order. */
export class Draws {
  readonly random: () => number

  constructor(seed: number) {
    this.random = seededRandom(seed)
  }

  /** A whole number from `low` to `high`, inclusive. */
  int(low: number, high: number): number {
    return low + Math.floor(this.random() * (high - low + 1))
  }

  chance(probability: number): boolean {
    return this.random() < probability
  }

  pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.random() * choices.length)] as T
  }
}

/** A number in [0, 1) per place, independent of other draws, so that a shortened scenario keeps its delays. */
export function drawAt(seed: number, ...place: readonly number[]): number {
  let state = seed | 0
  for (const part of place) state = Math.imul(state ^ (part + 0x9e3779b9), 0x85ebca6b) ^ (state >>> 13)
  return seededRandom(state)()
}

/** Extends a hash of a run by one text (FNV-1a). */
export function extendHash(hash: number, text: string): number {
  let result = hash
  for (let at = 0; at < text.length; at++) result = Math.imul(result ^ text.charCodeAt(at), 0x01000193)
  return result >>> 0
}

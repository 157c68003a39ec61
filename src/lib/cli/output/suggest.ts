import {editDistance} from '../../core/edit-distance.js'

/** Something a person could have meant: the words to compare with, and what to type instead. */
export interface NameCandidate {
  readonly words: readonly string[]
  readonly type: string
}

const MOST = 3

/** What was probably meant, best first. Longer matches win; words typed beyond a candidate count as its arguments. */
export function nearest(typed: readonly string[], candidates: readonly NameCandidate[]): string[] {
  const near = candidates.flatMap(candidate => {
    const distance = phraseDistance(typed, candidate.words)
    return distance === undefined ? [] : [{type: candidate.type, length: candidate.words.length, distance}]
  })
  near.sort((a, b) => b.length - a.length || a.distance - b.distance || a.type.localeCompare(b.type))
  const best = near.filter(one => one.length === near[0]?.length && one.distance === near[0]?.distance)
  return [...new Set(best.map(one => one.type))].slice(0, MOST)
}

/** Sum over the words, or `undefined` as soon as one of them is too far off to be a typing error. */
function phraseDistance(typed: readonly string[], words: readonly string[]): number | undefined {
  let sum = 0
  for (const [index, word] of words.entries()) {
    const distance = editDistance(typed[index] ?? '', word)
    if (distance > Math.ceil(word.length / 3)) return undefined
    sum += distance
  }
  return sum
}

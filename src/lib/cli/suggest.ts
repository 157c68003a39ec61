/** Something a person could have meant: the words to compare with, and what to type instead. */
export interface Candidate {
  readonly words: readonly string[]
  readonly type: string
}

const MOST = 3

/** What was probably meant, best first. Longer matches win; words typed beyond a candidate count as its arguments. */
export function nearest(typed: readonly string[], candidates: readonly Candidate[]): string[] {
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

/** How many letters must be added, removed, replaced or swapped with their neighbour to turn `a` into `b`. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({length: b.length + 1}, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const replaced = at(last, column - 1) + (a[row - 1] === b[column - 1] ? 0 : 1)
      const isSwap = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      const swapped = row > 1 && column > 1 && isSwap ? at(beforeLast, column - 2) + 1 : Infinity
      current.push(Math.min(replaced, swapped, at(last, column) + 1, at(current, column - 1) + 1))
    }
    beforeLast = last
    last = current
  }
  return at(last, b.length)
}

function at(numbers: readonly number[], index: number): number {
  return numbers[index] as number
}

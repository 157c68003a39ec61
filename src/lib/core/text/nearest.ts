export interface PhraseCandidate {
  readonly words: readonly string[]
  readonly type: string
}

const MOST_SUGGESTIONS = 3

/** At most three names, all equally near. */
export function nearestNames(typed: string, names: readonly string[]): string[] {
  return nearestPhrases(
    [typed],
    names.map(name => ({words: [name], type: name})),
  )
}

/** Longer matches win. Extra words count as the candidate's arguments. */
export function nearestPhrases(typed: readonly string[], candidates: readonly PhraseCandidate[]): string[] {
  const near = candidates.flatMap(({words, type}) => {
    const distance = phraseDistance(typed, words)
    return distance === undefined ? [] : [{type, length: words.length, distance}]
  })
  near.sort((a, b) => b.length - a.length || a.distance - b.distance || a.type.localeCompare(b.type))
  const best = near.filter(one => one.length === near[0]?.length && one.distance === near[0]?.distance)
  return [...new Set(best.map(one => one.type))].slice(0, MOST_SUGGESTIONS)
}

export function didYouMean(names: readonly string[]): string | undefined {
  return names.length === 0 ? undefined : `Did you mean ${names.map(name => `"${name}"`).join(' or ')}?`
}

function phraseDistance(typed: readonly string[], words: readonly string[]): number | undefined {
  let sum = 0
  for (const [index, word] of words.entries()) {
    const distance = editDistance(typed[index] ?? '', word)
    if (distance > Math.ceil(word.length / 3)) return undefined
    sum += distance
  }
  return sum
}

/** Damerau-Levenshtein: letters added, removed, replaced or swapped with their neighbour. */
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

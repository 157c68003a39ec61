export interface Pair {
  readonly text: string
  readonly name: string
  readonly value: string
  readonly valueAt: number
}

export type PairProblem = 'no-separator' | 'no-name' | 'duplicate'

type RefusePair = (problem: PairProblem, pair: Pair) => Error

/** Splits at the first separator; the value may be empty and may contain more separators. */
export function splitPair(text: string, separators: string, refuse: RefusePair): Pair {
  const found = Array.from(separators, separator => text.indexOf(separator)).filter(index => index >= 0)
  const at = found.length === 0 ? text.length : Math.min(...found)
  const pair = {text, name: text.slice(0, at), value: text.slice(at + 1), valueAt: at + 1}
  if (found.length === 0) throw refuse('no-separator', pair)
  if (pair.name === '') throw refuse('no-name', pair)
  return pair
}

export function readPairs(texts: readonly string[], separators: string, refuse: RefusePair): Pair[] {
  const names = new Set<string>()
  return texts.map(text => {
    const pair = splitPair(text, separators, refuse)
    if (names.has(pair.name)) throw refuse('duplicate', pair)
    names.add(pair.name)
    return pair
  })
}

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

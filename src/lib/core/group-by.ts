/** `Map.groupBy` is not in Node 20. */
export function groupBy<T, K>(elements: Iterable<T>, nameOf: (element: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const element of elements) {
    const name = nameOf(element)
    const group = groups.get(name)
    if (group) group.push(element)
    else groups.set(name, [element])
  }
  return groups
}

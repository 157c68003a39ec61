export type Parents = Pick<ReadonlyMap<string, unknown>, 'keys' | 'has' | 'get'>

/** The cycles among parents, each once; the first entity is repeated at the end. Parents that are not listed end a path. */
export function parentCycles(parents: Parents): string[][] {
  const cycles: string[][] = []
  const cleared = new Set<string>()
  for (const start of parents.keys()) {
    const path = new Set<string>()
    let next: unknown = start
    while (typeof next === 'string' && parents.has(next) && !cleared.has(next) && !path.has(next)) {
      path.add(next)
      next = parents.get(next)
    }
    if (typeof next === 'string' && path.has(next)) {
      const all = [...path]
      cycles.push([...all.slice(all.indexOf(next)), next])
    }
    for (const entity of path) cleared.add(entity)
  }
  return cycles
}

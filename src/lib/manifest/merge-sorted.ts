/** Elements of sorted sources in one sorted sequence; those with the same key come together, in the order of the sources. */
export async function* mergeSorted<T>(
  sources: readonly AsyncIterable<T>[],
  keyOf: (element: T) => string,
): AsyncGenerator<readonly [key: string, elements: readonly T[]], void> {
  const open = sources.map(source => source[Symbol.asyncIterator]())
  const heads: (T | undefined)[] = []
  const advance = async (at: number): Promise<void> => {
    const next = await open[at]?.next()
    heads[at] = next?.done ? undefined : next?.value
  }
  try {
    await Promise.all(open.map((_, at) => advance(at)))
    for (;;) {
      let least: string | undefined
      for (const head of heads) {
        const key = head === undefined ? undefined : keyOf(head)
        if (key !== undefined && (least === undefined || key < least)) least = key
      }
      if (least === undefined) return
      const elements: T[] = []
      for (const at of open.keys()) {
        for (let head = heads[at]; head !== undefined && keyOf(head) === least; head = heads[at]) {
          elements.push(head)
          await advance(at)
        }
      }
      yield [least, elements]
    }
  } finally {
    await Promise.all(open.map(source => source.return?.()))
  }
}

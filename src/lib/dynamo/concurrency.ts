export async function* chunksOf<T>(source: Iterable<T> | AsyncIterable<T>, size: number): AsyncGenerator<T[], void> {
  let chunk: T[] = []
  for await (const element of source) {
    chunk.push(element)
    if (chunk.length === size) {
      yield chunk
      chunk = []
    }
  }
  if (chunk.length > 0) yield chunk
}

/** After a failure it starts no new work, awaits the work in flight, and throws the first error. */
export async function forEachConcurrently<T>(
  source: Iterable<T> | AsyncIterable<T>,
  limit: number,
  work: (element: T) => Promise<void>,
): Promise<void> {
  const elements = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]()
  let failure: {error: unknown} | undefined
  async function worker(): Promise<void> {
    try {
      for (let next = await elements.next(); !next.done && failure === undefined; next = await elements.next()) {
        await work(next.value)
      }
    } catch (error) {
      failure ??= {error}
    }
  }
  await Promise.all(Array.from({length: limit}, worker))
  await elements.return?.()
  if (failure !== undefined) throw failure.error
}

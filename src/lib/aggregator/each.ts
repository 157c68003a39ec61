import {forEachConcurrently} from '../dynamo/concurrency.js'

const CONCURRENCY = 16

export async function each<T>(elements: readonly T[], work: (element: T) => Promise<void>): Promise<void> {
  async function* source(): AsyncGenerator<T, void> {
    yield* elements
  }
  await forEachConcurrently(source(), Math.min(CONCURRENCY, elements.length), work)
}

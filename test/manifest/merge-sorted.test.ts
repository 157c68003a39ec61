import fc from 'fast-check'
import {expect, it} from 'vitest'
import {mergeSorted} from '../../src/lib/manifest/export.js'

async function* of<T>(elements: readonly T[]): AsyncGenerator<T, void> {
  yield* elements
}

async function merged(sources: readonly AsyncIterable<string>[]): Promise<(readonly [string, readonly string[]])[]> {
  const found: (readonly [string, readonly string[]])[] = []
  for await (const each of mergeSorted(sources, text => text)) found.push(each)
  return found
}

it('merges sorted sources, with equal entries together', async () => {
  const sources = fc.array(fc.array(fc.constantFrom('a', 'b', 'c', 'ca', 'd')).map(texts => texts.sort()))
  await fc.assert(
    fc.asyncProperty(sources, async lists => {
      const all = lists.flat().sort()
      const found = await merged(lists.map(of))
      expect(found.flatMap(([, elements]) => elements)).toEqual(all)
      expect(found.map(([key]) => key)).toEqual([...new Set(all)])
    }),
  )
})

it('reads sources only as far as needed, and closes them with the reader', async () => {
  let read = 0
  let isEnded = false
  async function* endless() {
    try {
      for (;;) yield String(read++).padStart(9, '0')
    } finally {
      isEnded = true
    }
  }
  for await (const [key] of mergeSorted([endless(), of(['x'])], text => text)) if (key === '000000003') break
  expect(read).toBeLessThan(7)
  expect(isEnded).toBe(true)
})

import {describe, expect, test} from 'vitest'
import {chunksOf, forEachConcurrently} from '../../src/lib/dynamo/concurrency.js'

/** Counts endlessly and records when it is closed. */
function counting() {
  const state = {closed: false}
  async function* source(): AsyncGenerator<number, void> {
    try {
      for (let i = 0; ; i++) yield i
    } finally {
      state.closed = true
    }
  }
  return {state, source: source()}
}

const turn = () => new Promise(resolve => setImmediate(resolve))

describe('concurrent work', () => {
  test('starts nothing new after a failure, awaits the rest and closes the source', async () => {
    const {source, state} = counting()
    const started: number[] = []
    let finished = 0
    const working = forEachConcurrently(source, 3, async i => {
      started.push(i)
      await turn()
      if (i === 1) throw new Error('first')
      await turn()
      finished++
      if (i === 2) throw new Error('second')
    })
    await expect(working).rejects.toThrow('first')
    expect(started).toEqual([0, 1, 2])
    expect(finished).toBe(2)
    expect(state.closed).toBe(true)
  })

  test('fails if its source fails', async () => {
    async function* broken(): AsyncGenerator<number, void> {
      yield 1
      throw new Error('no more')
    }
    await expect(forEachConcurrently(broken(), 3, async () => {})).rejects.toThrow('no more')
  })

  test('accepts a list', async () => {
    const done: number[] = []
    await forEachConcurrently([1, 2, 3, 4], 3, async element => {
      done.push(element)
    })
    expect(done).toEqual([1, 2, 3, 4])
  })
})

test('keeps every element in order in chunks', async () => {
  const chunks: number[][] = []
  for await (const chunk of chunksOf([1, 2, 3, 4, 5], 2)) chunks.push(chunk)
  expect(chunks).toEqual([[1, 2], [3, 4], [5]])
})

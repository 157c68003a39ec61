import {describe, expect, it} from 'vitest'
import {followWhy} from '../../../src/lib/cli/acquire/why-run.js'

const report = (atMs: number) => ({entity: 'user-1', atMs, explanations: []})

/** Follows with these outcomes, ends after the last, and returns the shown reports. */
async function follow(outcomes: readonly (number | Error)[]) {
  const shown: (readonly [atMs: number, problem: string | undefined])[] = []
  const over = new AbortController()
  let [looks, end] = [0, (_exitCode: number) => {}]
  const reached = new Promise<number>(resolve => {
    end = resolve
  })
  const exitCode = await followWhy({
    look: async () => {
      const outcome = outcomes[looks++] as number | Error
      if (outcome instanceof Error) throw outcome
      return report(outcome)
    },
    show: ({atMs}, problem) => {
      shown.push([atMs, problem])
      if (shown.length < outcomes.length) return
      end(130)
      over.abort()
    },
    intervalMs: 0,
    end: {reached, signal: over.signal},
  })
  return {exitCode, shown}
}

describe('zael why --follow', () => {
  it('shows every report, and exits with the code of the signal', async () => {
    expect(await follow([1, 2, 3])).toEqual({
      exitCode: 130,
      shown: [
        [1, undefined],
        [2, undefined],
        [3, undefined],
      ],
    })
  })

  it('continues after a failed read, with the previous report and the reason', async () => {
    const {shown} = await follow([1, new Error('The connection was lost.'), 3])
    expect(shown).toEqual([
      [1, undefined],
      [1, 'The connection was lost.'],
      [3, undefined],
    ])
  })

  it('fails if the first read fails', async () => {
    await expect(follow([new Error('There is no entity "user-l".')])).rejects.toThrow('There is no entity')
  })
})

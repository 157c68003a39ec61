import {describe, expect, it} from 'vitest'
import type {Engine} from '../../../src/lib/local/engines/engine.js'
import type {ProcessExit} from '../../../src/lib/local/engines/owned-process.js'
import {watchEngine} from '../../../src/lib/local/supervisor/supervisor.js'

/** An engine that the test can end. */
function scriptedEngine(pid: number) {
  let end: (exit: ProcessExit) => void = () => {}
  const exited = new Promise<ProcessExit>(resolve => {
    end = resolve
  })
  const kill = () => end({code: null, signal: 'SIGKILL'})
  const engine = {
    name: 'dynoxide',
    pid,
    exited,
    endpoint: 'http://x',
    stderrTail: () => 'ouch',
    stop: async () => kill(),
  }
  return {engine: engine as unknown as Engine, kill}
}

/** Watches engines that each run for the given time and then die, until the watchdog gives up or the list is used up. */
async function watch(livesMs: readonly number[], restartFails: readonly number[] = []) {
  let nowMs = 0
  let starts = 0
  const pauses: number[] = []
  const happened: string[] = []
  const ending = new AbortController()
  const live = (index: number) => {
    const {engine, kill} = scriptedEngine(index)
    const lifeMs = livesMs[index]
    // After the last one the test stops the stack.
    if (lifeMs === undefined) queueMicrotask(() => ending.abort())
    else
      setImmediate(() => {
        nowMs += lifeMs
        kill()
      })
    return engine
  }
  const outcome = await watchEngine(live(0), {
    restart: async () => {
      starts++
      if (restartFails.includes(starts)) throw new Error('port taken')
      return live(starts - restartFails.filter(each => each < starts).length)
    },
    onDown: async () => void happened.push('down'),
    onUp: async () => void happened.push('up'),
    log: () => {},
    clock: () => nowMs,
    sleep: async ms => void pauses.push(ms),
    signal: ending.signal,
  }).then(
    () => 'ended',
    (error: Error) => error.message,
  )
  return {outcome, starts, pauses, happened}
}

describe('an engine that dies', () => {
  it('is restarted, after its users were stopped', async () => {
    expect(await watch([10])).toEqual({outcome: 'ended', starts: 1, pauses: [100], happened: ['down', 'up']})
  })

  it('is given up when it dies repeatedly, with backoff that doubles each time', async () => {
    const {outcome, starts, pauses} = await watch(Array(20).fill(10))
    expect(outcome).toBe('The engine did not stay up after 5 restarts: the engine ended with SIGKILL')
    expect({starts, pauses}).toEqual({starts: 5, pauses: [100, 200, 400, 800, 1600]})
  })

  it('is restarted without limit when it dies once an hour', async () => {
    const {outcome, starts, pauses} = await watch(Array(20).fill(3_600_000))
    expect({outcome, starts}).toEqual({outcome: 'ended', starts: 20})
    expect(new Set(pauses)).toEqual(new Set([100]))
  })

  it('is retried when the first restart fails; its users are stopped once', async () => {
    const {outcome, starts, happened} = await watch([10], [1, 2])
    expect({outcome, starts, happened}).toEqual({outcome: 'ended', starts: 3, happened: ['down', 'up']})
  })

  it('is given up with the reason when it never restarts', async () => {
    expect((await watch([10], [1, 2, 3, 4, 5])).outcome).toContain('restarts: port taken')
  })

  it('is not restarted when the stack stops', async () => {
    expect(await watch([])).toEqual({outcome: 'ended', starts: 0, pauses: [], happened: []})
  })
})

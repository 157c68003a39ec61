import {type ChildProcess, fork} from 'node:child_process'
import {availableParallelism} from 'node:os'
import type {RunResult} from './run.js'
import type {Profile} from './scenario.js'

/** The result of a seed played by another process. */
export type PlayedSeed = Omit<RunResult, 'log'>

export interface Seed {
  readonly profile: Profile
  readonly seed: number
}

/** Seeds queued per player ahead of the results. */
const AHEAD = 8

/** Seeds that make a further process worth starting. */
const FEWEST_SEEDS = 15

export function playerCount(seeds: number, asked = availableParallelism()): number {
  return Math.max(1, Math.min(asked, Math.ceil(seeds / FEWEST_SEEDS)))
}

/** Plays seeds in several processes; yields results in the order of the seeds. */
export async function* playSeeds(
  seeds: Iterable<Seed>,
  count: number,
): AsyncGenerator<Seed & {readonly played: PlayedSeed}, void> {
  const players = Array.from({length: count}, () => new Player())
  const handedOut: {readonly seed: Seed; readonly played: Promise<PlayedSeed>}[] = []
  const iterator = seeds[Symbol.iterator]()
  const handOut = (): void => {
    while (handedOut.length < count * AHEAD) {
      const {value: seed, done} = iterator.next()
      if (done) return
      const idlest = players.reduce((a, b) => (b.waiting < a.waiting ? b : a))
      const played = idlest.play(seed)
      // A failure is reported in its turn.
      played.catch(() => {})
      handedOut.push({seed, played})
    }
  }
  try {
    for (handOut(); handedOut.length > 0; handOut()) {
      const [{seed, played}] = handedOut.splice(0, 1) as [(typeof handedOut)[number]]
      yield {...seed, played: await played}
    }
  } finally {
    for (const player of players) player.stop()
  }
}

/** Another process, with the same Node options. */
class Player {
  readonly #child: ChildProcess = fork(new URL('player.ts', import.meta.url))
  readonly #waiting: {resolve: (played: PlayedSeed) => void; reject: (error: Error) => void}[] = []

  constructor() {
    this.#child.on('message', played => this.#waiting.shift()?.resolve(played as PlayedSeed))
    this.#child.on('exit', code => {
      const error = new Error(`a process that plays seeds ended with ${code}`)
      for (const {reject} of this.#waiting.splice(0)) reject(error)
    })
  }

  get waiting(): number {
    return this.#waiting.length
  }

  play(seed: Seed): Promise<PlayedSeed> {
    this.#child.send(seed)
    return new Promise((resolve, reject) => this.#waiting.push({resolve, reject}))
  }

  stop(): void {
    this.#child.kill()
  }
}

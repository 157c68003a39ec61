import {type ChildProcessByStdio, spawn} from 'node:child_process'
import {once} from 'node:events'
import {tmpdir} from 'node:os'
import type {Readable} from 'node:stream'
import {BIN, type Outcome} from './zael.js'

/** The built command line while it runs. */
export class RunningZael {
  /** What came of it, once it has ended. */
  readonly ended: Promise<Outcome>
  readonly #child: ChildProcessByStdio<null, Readable, Readable>
  #stdout = ''
  #stderr = ''

  constructor(args: readonly string[]) {
    const env = {PATH: process.env.PATH, HOME: tmpdir(), XDG_CONFIG_HOME: `${tmpdir()}/no-such-folder`, NO_COLOR: '1'}
    this.#child = spawn(process.execPath, [BIN, ...args], {env, stdio: ['ignore', 'pipe', 'pipe']})
    this.#child.stdout.setEncoding('utf8').on('data', chunk => {
      this.#stdout += chunk
    })
    this.#child.stderr.setEncoding('utf8').on('data', chunk => {
      this.#stderr += chunk
    })
    this.ended = new Promise((resolve, reject) => {
      this.#child.on('error', reject)
      this.#child.on('close', code => resolve({code, stdout: this.#stdout, stderr: this.#stderr}))
    })
  }

  /** Waits until stdout has it; the test's own timeout is the limit. */
  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.#stdout)) {
      const outcome = await Promise.race([once(this.#child.stdout, 'data'), this.ended])
      if ('code' in outcome) throw new Error(`ended without ${pattern}: ${JSON.stringify(outcome)}`)
    }
  }

  /** Goes away as `head` does when it has seen enough. */
  stopReading(): void {
    this.#child.stdout.destroy()
  }

  kill(signal: NodeJS.Signals): Promise<Outcome> {
    this.#child.kill(signal)
    return this.ended
  }
}

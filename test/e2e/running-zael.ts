import {type ChildProcessByStdio, spawn} from 'node:child_process'
import {once} from 'node:events'
import type {Readable} from 'node:stream'
import {cleanEnvironment, type RunningCommand, startCommand} from '../helpers/run-command.js'
import {BIN, type Outcome} from './zael.js'

/** A command that runs until it is stopped. */
export interface RunningZael {
  /** The outcome, once it has ended. */
  readonly ended: Promise<Outcome>
  /** Waits until stdout has it; the test's own timeout is the limit. */
  until(pattern: RegExp): Promise<void>
  /** Sends a signal, and waits for the end. */
  stop(signal: NodeJS.Signals): Promise<Outcome>
}

/** A command in this process, from its sources. Only registered listeners receive signals. */
export class RunningHere implements RunningZael {
  readonly ended: Promise<Outcome>
  readonly #command: RunningCommand
  #outcome: Outcome | undefined

  constructor(args: readonly string[]) {
    this.#command = startCommand(args, {env: {NO_COLOR: '1'}})
    this.ended = this.#command.ended.then(outcome => {
      this.#outcome = outcome
      return outcome
    })
  }

  /** Its output so far. */
  get output(): RunningCommand['output'] {
    return this.#command.output
  }

  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.#command.output.stdout)) {
      await Promise.race([this.#command.written(), this.ended])
      if (this.#outcome) throw new Error(`ended without ${pattern}: ${JSON.stringify(this.#outcome)}`)
    }
  }

  async stop(signal: NodeJS.Signals): Promise<Outcome> {
    if (!this.#outcome) process.emit(signal)
    return this.ended
  }
}

/** The built command line in a process of its own. */
export class RunningProcess implements RunningZael {
  readonly ended: Promise<Outcome>
  readonly #child: ChildProcessByStdio<null, Readable, Readable>
  #stdout = ''
  #stderr = ''

  constructor(args: readonly string[], given: Readonly<Record<string, string>> = {}) {
    const env = cleanEnvironment({NO_COLOR: '1', ...given})
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

  stop(signal: NodeJS.Signals): Promise<Outcome> {
    this.#child.kill(signal)
    return this.ended
  }
}

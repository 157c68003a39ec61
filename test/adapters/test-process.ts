import {type ChildProcessByStdio, spawn} from 'node:child_process'
import {once} from 'node:events'
import {createInterface} from 'node:readline'
import type {Readable, Writable} from 'node:stream'
import {fileURLToPath} from 'node:url'

/** A program of `fixtures` in a process of its own. */
export class TestProcess {
  readonly child: ChildProcessByStdio<Writable, Readable, null>
  readonly #lines: AsyncIterator<string>

  constructor(program: string, args: readonly string[]) {
    const path = fileURLToPath(new URL(`fixtures/${program}.ts`, import.meta.url))
    this.child = spawn(process.execPath, ['--import', 'tsx', path, ...args], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: {PATH: process.env.PATH, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true'},
    })
    // A killed process reads nothing.
    this.child.stdin.on('error', () => {})
    this.#lines = createInterface({input: this.child.stdout})[Symbol.asyncIterator]()
  }

  /** The next line of its output. */
  async line(): Promise<string> {
    const {done, value} = await this.#lines.next()
    if (done) throw new Error('A process ended early.')
    return value
  }

  /** Resolves when it has ended, with its exit code or the signal that ended it. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<number | string | null> {
    const {child} = this
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'close')
      child.kill(signal)
      await gone
    }
    return child.exitCode ?? child.signalCode
  }
}

import {type ChildProcess, execFile, spawn} from 'node:child_process'
import {once} from 'node:events'
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {fileURLToPath} from 'node:url'
import {promisify} from 'node:util'
import {paint, say} from './screen.js'

const ZAEL = fileURLToPath(new URL('../../bin/run.js', import.meta.url))

/** A separate local stack, controlled by the normal zael commands. */
export class DemoStack {
  readonly #home: string
  #view: ChildProcess | undefined

  private constructor(home: string) {
    this.#home = home
  }

  static async inOwnFolder(): Promise<DemoStack> {
    return new DemoStack(await mkdtemp(join(tmpdir(), 'zael-demo-')))
  }

  /** The variable with which other commands reach this stack. */
  get environment(): string {
    return `ZAEL_DATA_DIR=${this.#home}`
  }

  /** Runs a command; shows the command and its output. */
  async show(...args: string[]): Promise<void> {
    say(`   ${paint('cyan', `$ zael ${args.join(' ')}`)}`)
    const {stdout} = await this.#run(args)
    for (const line of stdout.trimEnd().split('\n')) say(`     ${line}`)
  }

  /** Runs a command with --json and returns its result. */
  async ask(...args: string[]): Promise<Record<string, unknown>> {
    return JSON.parse((await this.#run([...args, '--json'])).stdout)
  }

  /** Gives the whole terminal to the live view; resolves to its exit code when it is closed. */
  async view(...flags: string[]): Promise<number> {
    const args = ['watch', '--stack', 'local', ...flags]
    say(`   ${paint('cyan', `$ zael ${args.join(' ')}`)}`)
    this.#view = spawn(process.execPath, [ZAEL, ...args], {env: this.#environment, stdio: 'inherit'})
    const [code] = await once(this.#view, 'close')
    return code ?? 0
  }

  /** Closes the live view, if it is open, and waits until the terminal is restored. */
  async closeView(): Promise<void> {
    if (!this.#view || this.#view.exitCode !== null || this.#view.signalCode !== null) return
    const closed = once(this.#view, 'close')
    this.#view.kill('SIGTERM')
    await closed
  }

  async remove(): Promise<void> {
    await rm(this.#home, {recursive: true, force: true})
  }

  get #environment(): NodeJS.ProcessEnv {
    const {AWS_PROFILE: _, ...env} = process.env
    return {...env, ZAEL_DATA_DIR: this.#home}
  }

  #run(args: string[]): Promise<{stdout: string}> {
    return promisify(execFile)(process.execPath, [ZAEL, ...args], {env: {...this.#environment, NO_COLOR: '1'}})
  }
}

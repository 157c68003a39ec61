import {mkdtemp, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {stateDirAt} from '../../src/lib/local/state-dir/state.js'
import {isRunning, untilGone} from '../local/support.js'
import {schemaProblems} from './schemas.js'
import {type Outcome, spawnZael, zael} from './zael.js'

/** The output of `--json`. */
export type JsonOutput = Record<string, unknown>

/** A user with a home of their own. */
export class LocalUser {
  readonly #pids = new Set<number>()

  private constructor(readonly folder: string) {}

  static async create(): Promise<LocalUser> {
    return new LocalUser(await mkdtemp(join(tmpdir(), 'zael-local-')))
  }

  get home() {
    return stateDirAt(join(this.folder, 'zael', 'local'))
  }

  get env(): Record<string, string> {
    return {XDG_DATA_HOME: this.folder}
  }

  /** `zael local …`. Commands that start processes run the built CLI in their own process. */
  async run(args: string, env: Record<string, string> = {}): Promise<Outcome> {
    const words = args.split(' ')
    const run = words[0] === 'up' ? spawnZael : zael
    const outcome = await run(['local', ...words], {env: {...this.env, ...env}})
    await this.#noteProcesses()
    return outcome
  }

  /** `zael local … --json`, which is expected to exit with that code and to say nothing beside the document. */
  async tell(args: string, code = 0, env: Record<string, string> = {}): Promise<JsonOutput> {
    const outcome = await this.run(`${args} --json`, env)
    if (outcome.code !== code || outcome.stderr !== '') throw new Error(JSON.stringify(outcome))
    const result = JSON.parse(outcome.stdout)
    const problems = schemaProblems('error' in result ? 'error' : `local ${args.split(' ', 1)[0]}`, result)
    if (problems.length > 0) throw new Error(`${problems.join('\n')}\n${outcome.stdout}`)
    return result
  }

  /** Waits until the status is as wanted; the test's own timeout is the limit. */
  async until(isWanted: (status: JsonOutput) => boolean): Promise<JsonOutput> {
    for (;;) {
      const {stdout} = await this.run('status --json')
      const status = JSON.parse(stdout)
      if (isWanted(status)) return status
      await sleep(100)
    }
  }

  /** Whether any process of a stack that was ever seen here still runs. */
  leftovers(): number[] {
    return [...this.#pids].filter(isRunning)
  }

  /** Ends everything, whatever a test has left behind. */
  async leave(): Promise<void> {
    for (const pid of this.leftovers()) process.kill(pid, 'SIGKILL')
    await untilGone([...this.#pids])
    // Processes of a supervisor may still be writing their last files.
    await rm(this.folder, {recursive: true, maxRetries: 50, retryDelay: 100})
  }

  async #noteProcesses(): Promise<void> {
    const state = await readFile(this.home.stateFile, 'utf8').catch(() => '{}')
    const {pid} = JSON.parse(state)
    if (typeof pid === 'number' && pid > 0) this.#pids.add(pid)
  }

  /** Notes a process to be ended with the others. */
  note(pid: unknown): number {
    if (typeof pid !== 'number') throw new Error(`no process id: ${pid}`)
    this.#pids.add(pid)
    return pid
  }
}

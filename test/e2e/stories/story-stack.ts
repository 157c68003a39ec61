import {type ChildProcess, spawn} from 'node:child_process'
import {once} from 'node:events'
import {setTimeout as sleep} from 'node:timers/promises'
import {fileURLToPath} from 'node:url'
import {type NamespaceRepository, Repository} from '../../../src/lib/index.js'
import {LocalUser} from '../local-stack.js'
import type {JsonOutput} from '../table-cli.js'
import {type Outcome, zael} from '../zael.js'
import type {Lane, Tally, TrafficReport} from './traffic.js'

const TRAFFIC = fileURLToPath(new URL('./traffic.ts', import.meta.url))
const GATEWAY = fileURLToPath(new URL('./gateway.ts', import.meta.url))

/** Columns of the terminal that an operator looks at. */
const COLUMNS = '120'

function serviceOf(file: string, endpoint: string): ChildProcess {
  return spawn(process.execPath, ['--import', 'tsx', file, endpoint], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {PATH: process.env.PATH, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true', NODE_NO_WARNINGS: '1'},
  })
}

/** A local stack with customers, whose requests are made by a process of its own with the library. */
export class StoryStack {
  /** Commands and their output since the last `take`. */
  #shown: string[] = []

  private constructor(
    readonly user: LocalUser,
    readonly endpoint: string,
    readonly namespace: NamespaceRepository,
    private readonly repository: Repository,
    private readonly traffic: ChildProcess,
  ) {}

  static async create(): Promise<StoryStack> {
    const user = await LocalUser.create()
    const endpoint = String((await user.tell('up')).endpoint)
    const repository = new Repository({stack: 'local', endpoint, principal: 'setup'})
    const traffic = serviceOf(TRAFFIC, endpoint)
    return new StoryStack(user, endpoint, await repository.namespace(), repository, traffic)
  }

  /** Starts a gateway, and kills it while it streams. */
  async killGateway(): Promise<void> {
    const gateway = serviceOf(GATEWAY, this.endpoint)
    await once(gateway, 'message')
    gateway.kill('SIGKILL')
    await once(gateway, 'exit')
  }

  /** Starts requests. */
  send(...lanes: readonly Lane[]): void {
    for (const lane of lanes) this.traffic.send(lane)
  }

  async report(question: 'report' | 'close' = 'report'): Promise<TrafficReport> {
    const answer = once(this.traffic, 'message')
    this.traffic.send(question)
    const [report] = await answer
    return report as TrafficReport
  }

  /** Waits until the requests of a customer went as wanted; the test's own timeout is the limit. */
  async until(lane: string, isWanted: (tally: Tally) => boolean): Promise<Tally> {
    for (;;) {
      const tally = (await this.report()).tallies[lane]
      if (tally && isWanted(tally)) return tally
      await sleep(20)
    }
  }

  /** Runs a command as typed, and records its output. Words with spaces are quoted with '…'. */
  async type(command: string, code = 0): Promise<string> {
    const {stdout, stderr, code: ended} = await this.run(command)
    if (ended !== code) throw new Error(`${command} ended with ${ended}: ${stdout}${stderr}`)
    const exit = code === 0 ? '' : `[exit code ${code}]\n`
    this.#shown.push(`$ ${command}\n${stdout}${stderr}${exit}`)
    return `${stdout}${stderr}`
  }

  run(command: string): Promise<Outcome> {
    const words = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? '')
    const env = {...this.user.env, ZAEL_STACK: 'local', ZAEL_PRINCIPAL: 'ada@laptop', NO_COLOR: '1', COLUMNS}
    return zael(words.slice(1), {env, cwd: this.user.folder})
  }

  /** Waits until the `--json` output of a command is as wanted; records nothing. */
  async untilShown(command: string, isWanted: (result: JsonOutput) => boolean): Promise<void> {
    while (!isWanted(JSON.parse((await this.run(`${command} --json`)).stdout))) await sleep(20)
  }

  /** Records the output of a command that `type` did not run. */
  note(text: string): void {
    this.#shown.push(text)
  }

  /** Returns the recorded output, and clears it. */
  take(): string[] {
    const shown = this.#shown
    this.#shown = []
    return shown
  }

  async leave(): Promise<void> {
    this.traffic.kill('SIGKILL')
    await this.repository.close()
    await this.user.run('down')
    await this.user.leave()
  }
}

import {execFile, spawnSync} from 'node:child_process'
import {mkdtemp, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {promisify} from 'node:util'
import {runningProcesses} from '../local/support.js'
import {BIN} from './zael.js'

const run = promisify(execFile)

/** How long a screen is looked at before a test gives up, in ms: only a screen that never comes takes it. */
const LONGEST_LOOK_MS = 60_000

/** Whether tests on a real terminal are left out: tmux is missing, and this is not CI, where it must be there. */
export function isTmuxMissing(): boolean {
  if (process.env.CI || spawnSync('tmux', ['-V']).status === 0) return false
  process.stderr.write('Tests of the live view on a terminal are skipped: tmux is not installed\n')
  return true
}

interface TerminalOptions {
  readonly columns: number
  readonly rows: number
  readonly env?: Readonly<Record<string, string>>
  /** Commands of the shell before it prints the exit code, each with a semicolon. */
  readonly then?: string
}

/** The built command line on a real terminal of its own. */
export class TerminalRun {
  readonly #folder: string

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** Starts `zael` below the line "before"; when it has ended, its exit code follows. */
  static async start(
    args: readonly string[],
    {columns, rows, env = {}, then = ''}: TerminalOptions,
  ): Promise<TerminalRun> {
    const terminal = new TerminalRun(await mkdtemp(join(tmpdir(), 'zael-tmux-')))
    const words = [process.execPath, BIN, ...args].map(word => `'${word}'`).join(' ')
    const variables = Object.entries({...env, HOME: terminal.#folder, XDG_CONFIG_HOME: terminal.#folder})
    const exports = variables.map(([name, value]) => `${name}='${value}'`).join(' ')
    const script = `echo before; env ${exports} ${words}; ${then}echo "exit code $?"; exec cat`
    await terminal.#tmux('new-session', '-d', '-x', String(columns), '-y', String(rows), 'sh', '-mc', script)
    return terminal
  }

  async #tmux(...args: string[]): Promise<string> {
    // Without the variables of the test runner: with CI, Ink would not draw.
    const env = {PATH: process.env.PATH, LANG: 'C.UTF-8', SHELL: '/bin/sh'}
    const {stdout} = await run('tmux', ['-S', join(this.#folder, 'socket'), '-f', '/dev/null', '-u', ...args], {env})
    return stdout
  }

  screen(): Promise<string> {
    return this.#tmux('capture-pane', '-p')
  }

  /** Waits until one look at the screen shows all of it: a frame may be half drawn when it is looked at. */
  async until(...patterns: RegExp[]): Promise<string> {
    const endMs = performance.now() + LONGEST_LOOK_MS
    for (;;) {
      const screen = await this.screen()
      const missing = patterns.filter(pattern => !pattern.test(screen))
      if (missing.length === 0) return screen
      if (performance.now() > endMs) throw new Error(`The screen does not show ${missing.join(', ')}:\n${screen}`)
      await sleep(50)
    }
  }

  async press(...keys: string[]): Promise<void> {
    await this.#tmux('send-keys', ...keys)
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#tmux('resize-window', '-x', String(columns), '-y', String(rows))
  }

  /** Whether a program has the whole screen, and whether the cursor is to be seen. */
  async state(): Promise<{isAlternate: boolean; isCursorShown: boolean}> {
    const result = await this.#tmux('display', '-p', '#{alternate_on} #{cursor_flag}')
    const [alternate, cursor] = result.trim().split(' ')
    return {isAlternate: alternate === '1', isCursorShown: cursor === '1'}
  }

  /** Sends a signal to zael itself. */
  async signal(signal: NodeJS.Signals): Promise<void> {
    const shell = Number(await this.#tmux('display', '-p', '#{pane_pid}'))
    const child = runningProcesses().find(({parentPid}) => parentPid === shell)
    if (!child) throw new Error('zael does not run')
    process.kill(child.pid, signal)
  }

  /** Ends it and whatever runs in it. */
  async close(): Promise<void> {
    await this.#tmux('kill-server').catch(() => {}) // already ended
    await rm(this.#folder, {recursive: true, force: true})
  }
}

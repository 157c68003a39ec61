import {vi} from 'vitest'
import type {Reading} from '../../../src/lib/live/model/model.js'
import {type LiveViewOptions, type LiveViewResult, showLiveView} from '../../../src/lib/live/screen/live-view.js'
import {READ_AT_MS} from '../support.js'
import {FakeWatch} from './fake-watch.js'
import {FakeKeyboard, FakeTerminal} from './terminal.js'

/** Escape sequences and control characters of keys. */
export const KEY = {
  enter: '\r',
  escape: '\u001b',
  tab: '\t',
  backspace: '\u007f',
  up: '\u001b[A',
  down: '\u001b[B',
  left: '\u001b[D',
  pageUp: '\u001b[5~',
  pageDown: '\u001b[6~',
  ctrlC: '\u0003',
  ctrlD: '\u0004',
  ctrlU: '\u0015',
} as const

/** React schedules updates that are not caused by a key with the immediates that were there when it was loaded. */
const {setImmediate: realImmediate} = globalThis
const reactUpdates = () => new Promise<void>(resolve => realImmediate(resolve))

/** Ink holds a lone escape for 20 ms, and leaves a timer of 34 ms behind when it ends. */
const SETTLE_MS = 60

interface TerminalOptions {
  readonly columns?: number
  readonly rows?: number
  /** Text echoed before the view opened. */
  readonly typedBefore?: string
  /** 1: no colours. */
  readonly colourBits?: number
}

/** The whole view on a fake terminal, with a fake watch and fake timers. */
export class OpenView {
  readonly terminal: FakeTerminal
  readonly keyboard = new FakeKeyboard()
  readonly watch: FakeWatch
  readonly result: Promise<LiveViewResult>
  /** Whether keys were echoed while the view was opened or closed. */
  hasEchoed = false

  private constructor(readings: readonly Reading[], terminal: FakeTerminal, options: Partial<LiveViewOptions>) {
    this.watch = new FakeWatch(readings, Date.now)
    this.terminal = terminal
    this.terminal.on('switch', () => {
      if (!this.keyboard.isRaw) this.hasEchoed = true
    })
    this.result = showLiveView(this.watch, {
      stack: 'prod',
      namespace: 'default',
      where: 'eu-west-1',
      ascii: false,
      top: undefined,
      selection: {sort: 'left', reversed: false, filter: ''},
      forMs: undefined,
      stdin: this.keyboard as never,
      stdout: this.terminal as never,
      ...options,
    })
    // Tests that expect an error await the result later.
    this.result.catch(() => {})
  }

  /** Opens a view one second after its data was read. */
  static async open(
    readings: readonly Reading[],
    {
      columns = 80,
      rows = 16,
      typedBefore = '',
      colourBits = 1,
      ...options
    }: Partial<LiveViewOptions> & TerminalOptions = {},
  ): Promise<OpenView> {
    vi.useFakeTimers({now: READ_AT_MS + 1000})
    const terminal = new FakeTerminal(columns, rows, colourBits)
    terminal.write(typedBefore)
    const view = new OpenView(readings, terminal, options)
    await view.pass(SETTLE_MS)
    return view
  }

  async pass(ms: number): Promise<void> {
    await reactUpdates()
    await vi.advanceTimersByTimeAsync(ms)
    await reactUpdates()
  }

  /** Presses keys one after the other, and waits for each frame. */
  async press(...keys: string[]): Promise<void> {
    for (const key of keys) {
      this.keyboard.press(key)
      await this.pass(SETTLE_MS)
    }
  }

  /** Entities in the order of the screen. */
  get entities(): string[] {
    return this.terminal.lines.flatMap(line => /^.[●▲✖○][ ~](\S+)/.exec(line)?.[1] ?? [])
  }

  /** The entity or name at the cursor. */
  get selected(): string | undefined {
    return this.terminal.lines.flatMap(line => /^▸[●▲✖○]?[ ~]?(\S+)/.exec(line)?.[1] ?? [])[0]
  }

  get statusLine(): string {
    return this.terminal.lines.at(-1) ?? ''
  }
}

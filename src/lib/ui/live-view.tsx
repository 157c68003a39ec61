import {render, useInput} from 'ink'
import type {Selection, Watch} from '../watch/model.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from './draw/glyphs.js'
import {Painter} from './draw/painter.js'
import {paletteFor} from './draw/palette.js'
import type {KeyPress} from './model/keys.js'
import type {Size} from './model/scene.js'
import {screenLines} from './screen.js'
import {type ExitCode, LiveSession} from './session.js'
import {summaryLine} from './summary.js'

export interface LiveViewOptions {
  readonly stack: string
  readonly namespace: string
  /** Region or endpoint. */
  readonly where: string
  /** The flags that led here, as a command needs them again, with a blank before each; none unless said. */
  readonly typedFlags?: string
  readonly ascii: boolean
  /** Rows at most; `undefined`: all. */
  readonly top: number | undefined
  readonly selection: Selection
  /** Ends by itself after so many ms; `undefined`: never. */
  readonly forMs: number | undefined
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
}

/** How the view ended, and what to leave in the scrollback. */
export interface LiveViewResult {
  readonly exitCode: ExitCode
  readonly summary: string
}

/**
 * Draws a started watch on the whole terminal until a key, a signal or the time ends it. Starts and stops no polling.
 * Ink sets the terminal up, reads its keys and gives it back; the frames are painted beside it.
 */
export async function showLiveView(watch: Watch, options: LiveViewOptions): Promise<LiveViewResult> {
  const {stdin, stdout, selection, forMs, ascii, ...place} = options
  const settings = {...place, glyphs: ascii ? ASCII_GLYPHS : BLOCK_GLYPHS}
  const painter = new Painter(text => stdout.write(text), paletteFor(stdout.getColorDepth?.() ?? 1))
  const session = new LiveSession(watch, settings, selection, sizeOf(stdout), scene => {
    painter.paint(screenLines(scene))
  })
  // From here on no key is echoed.
  stdin.setRawMode(true)
  const app = render(<Keys onKey={(input, key) => session.press(input, key)} />, {
    stdin,
    stdout,
    alternateScreen: true,
    interactive: true,
    exitOnCtrlC: false,
    patchConsole: false,
  })
  const listening = [
    // After Ink, which erases a line or two when the screen gets narrower.
    listen(stdout, 'resize', () => {
      painter.forget()
      session.resize(sizeOf(stdout))
    }),
    listen(process, 'SIGTERM', () => session.end(143)),
    listen(process, 'SIGINT', () => session.end(130)),
  ]
  try {
    session.open(forMs)
    // A fault of its own is told by Ink; it never ends otherwise.
    const exitCode = await Promise.race([session.ended, app.waitUntilExit().then((): ExitCode => 0)])
    return {exitCode, summary: summaryLine(session.scene.ranking, session.seen, session.scene.nowMs)}
  } finally {
    session.close()
    for (const stop of listening) stop()
    app.unmount()
    await app.waitUntilExit().catch(() => {}) // told already
    stdin.setRawMode(false)
  }
}

function Keys({onKey}: {readonly onKey: (input: string, key: KeyPress) => void}) {
  useInput(onKey)
  return null
}

/** A terminal that does not know its size is taken for the usual one. */
function sizeOf({columns, rows}: NodeJS.WriteStream): Size {
  return {columns: columns || 80, rows: rows || 24}
}

function listen(emitter: NodeJS.EventEmitter, event: string, listener: () => void): () => void {
  emitter.on(event, listener)
  return () => emitter.off(event, listener)
}

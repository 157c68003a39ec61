import {render, useInput} from 'ink'
import type {Selection, Watch} from '../watch/model.js'
import {type ExitCode, LiveViewController} from './controller.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from './draw/glyphs.js'
import {paletteFor} from './draw/palette.js'
import {TerminalRenderer} from './draw/renderer.js'
import type {Size} from './model/frame.js'
import type {KeyPress} from './model/keys.js'
import {summaryLine} from './model/summary.js'
import {screenLines} from './panels/screen.js'

export interface LiveViewOptions {
  readonly stack: string
  readonly namespace: string
  /** Region or endpoint. */
  readonly where: string
  /** Flags to repeat in suggested commands, each with a leading space; none by default. */
  readonly typedFlags?: string
  readonly ascii: boolean
  /** Maximum number of rows; `undefined`: all. */
  readonly top: number | undefined
  readonly selection: Selection
  /** Ends by itself after this time; `undefined`: never. */
  readonly forMs: number | undefined
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
}

/** How the view ended, and a line for the scrollback. */
export interface LiveViewResult {
  readonly exitCode: ExitCode
  readonly summary: string
}

/**
 * Shows a started watch in full screen until a key, a signal or `forMs` ends it. Does not start or stop the watch. Ink sets up
 * the terminal, reads keys and restores the terminal; the frames are written by our own renderer.
 */
export async function showLiveView(watch: Watch, options: LiveViewOptions): Promise<LiveViewResult> {
  const {stdin, stdout, selection, forMs, ascii, ...place} = options
  const settings = {...place, glyphs: ascii ? ASCII_GLYPHS : BLOCK_GLYPHS}
  const renderer = new TerminalRenderer(text => stdout.write(text), paletteFor(stdout.getColorDepth?.() ?? 1))
  const controller = new LiveViewController(watch, settings, selection, sizeOf(stdout), frame => {
    renderer.render(screenLines(frame))
  })
  // From here on, keys are not echoed.
  stdin.setRawMode(true)
  const app = render(<Keys onKey={(input, key) => controller.press(input, key)} />, {
    stdin,
    stdout,
    alternateScreen: true,
    interactive: true,
    exitOnCtrlC: false,
    patchConsole: false,
  })
  const listening = [
    // After Ink, which erases some lines when the screen gets narrower.
    listen(stdout, 'resize', () => {
      renderer.invalidate()
      controller.resize(sizeOf(stdout))
    }),
    listen(process, 'SIGTERM', () => controller.end(143)),
    listen(process, 'SIGINT', () => controller.end(130)),
  ]
  try {
    controller.open(forMs)
    // Ink ends by itself only with an error of its own.
    const exitCode = await Promise.race([controller.ended, app.waitUntilExit().then((): ExitCode => 0)])
    return {exitCode, summary: summaryLine(controller.frame.ranking, controller.stats, controller.frame.nowMs)}
  } finally {
    controller.close()
    for (const stop of listening) stop()
    app.unmount()
    await app.waitUntilExit().catch(() => {}) // already reported
    stdin.setRawMode(false)
  }
}

function Keys({onKey}: {readonly onKey: (input: string, key: KeyPress) => void}) {
  useInput(onKey)
  return null
}

/** 80×24 where the terminal does not report its size. */
function sizeOf({columns, rows}: NodeJS.WriteStream): Size {
  return {columns: columns || 80, rows: rows || 24}
}

function listen(emitter: NodeJS.EventEmitter, event: string, listener: () => void): () => void {
  emitter.on(event, listener)
  return () => emitter.off(event, listener)
}

import {render, useInput} from 'ink'
import type {Selection, Watch} from '../watch/model.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from './glyphs.js'
import type {KeyPress} from './keys.js'
import {paletteFor} from './palette.js'
import type {Scene, Size} from './scene.js'
import {Screen} from './screen.js'
import {type ExitCode, LiveSession} from './session.js'
import {summaryLine} from './summary.js'

export interface LiveViewOptions {
  readonly stack: string
  readonly namespace: string
  /** Region or endpoint. */
  readonly where: string
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

interface LiveViewProps {
  readonly scene: Scene
  readonly onKey: (input: string, key: KeyPress) => void
}

/** Draws a started watch on the whole terminal until a key, a signal or the time ends it. Starts and stops no polling. */
export async function showLiveView(watch: Watch, options: LiveViewOptions): Promise<LiveViewResult> {
  const {stdin, stdout, selection, forMs, ascii, ...place} = options
  const glyphs = ascii ? ASCII_GLYPHS : BLOCK_GLYPHS
  const settings = {...place, glyphs, palette: paletteFor(stdout.getColorDepth?.() ?? 1)}
  const onKey = (input: string, key: KeyPress) => session.press(input, key)
  const draw = (scene: Scene) => app.rerender(<LiveView scene={scene} onKey={onKey} />)
  const session = new LiveSession(watch, settings, selection, sizeOf(stdout), draw)
  const listening = [
    // Before Ink hears of it: otherwise it would draw the old scene once more, too tall for the new screen.
    listen(stdout, 'resize', () => session.resize(sizeOf(stdout))),
    listen(process, 'SIGTERM', () => session.end(143)),
    listen(process, 'SIGINT', () => session.end(130)),
  ]
  // Ink draws its first frame from where the cursor is. Keys that were typed while zael started were echoed, and have
  // moved it; from here on none is.
  stdin.setRawMode(true)
  stdout.write('\r')
  const app = render(<LiveView scene={session.scene} onKey={onKey} />, {
    stdin,
    stdout,
    alternateScreen: true,
    incrementalRendering: true,
    interactive: true,
    exitOnCtrlC: false,
    patchConsole: false,
  })
  try {
    session.open(forMs)
    // A fault while drawing is told by Ink; it never ends otherwise.
    const exitCode = await Promise.race([session.ended, app.waitUntilExit().then((): ExitCode => 0)])
    return {exitCode, summary: summaryLine(session.scene, session.seen)}
  } finally {
    session.close()
    for (const stop of listening) stop()
    app.unmount()
    await app.waitUntilExit().catch(() => {}) // told already
    stdin.setRawMode(false)
  }
}

function LiveView({scene, onKey}: LiveViewProps) {
  useInput(onKey)
  return <Screen scene={scene} />
}

/** A terminal that does not know its size is taken for the usual one. */
function sizeOf({columns, rows}: NodeJS.WriteStream): Size {
  return {columns: columns || 80, rows: rows || 24}
}

function listen(emitter: NodeJS.EventEmitter, event: string, listener: () => void): () => void {
  emitter.on(event, listener)
  return () => emitter.off(event, listener)
}

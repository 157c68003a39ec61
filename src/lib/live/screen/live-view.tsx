import {render} from 'ink'
import type {Selection, Watch} from '../model/model.js'
import type {BucketActions} from '../state/actions.js'
import {LiveView, type LiveViewResult} from './app.js'
import {WatchFeed} from './feed.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from './glyphs.js'
import {paletteFor} from './palette.js'

/** A key that follows a frame immediately is drawn after this part of a second at the latest. */
const MAX_FPS = 60

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
  /** What the view may change; without it there are no keys that change anything. */
  readonly actions?: BucketActions | undefined
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
}

/** Shows a started watch in full screen until a key, a signal or `forMs` ends it. Does not start or stop the watch. */
export async function showLiveView(watch: Watch, options: LiveViewOptions): Promise<LiveViewResult> {
  const {stdin, stdout, selection, forMs, actions, ascii, ...place} = options
  const settings = {...place, glyphs: ascii ? ASCII_GLYPHS : BLOCK_GLYPHS}
  const palette = paletteFor(stdout.getColorDepth?.() ?? 1)
  const feed = new WatchFeed(watch)
  // From here on, keys are not echoed.
  stdin.setRawMode(true)
  // Ink writes its first frame where the cursor is, behind what was typed before.
  stdout.write('\r')
  const app = render(<LiveView {...{watch, feed, settings, palette, selection, forMs, actions}} />, {
    stdin,
    stdout,
    alternateScreen: true,
    incrementalRendering: true,
    interactive: true,
    exitOnCtrlC: false,
    patchConsole: false,
    maxFps: MAX_FPS,
  })
  try {
    return (await app.waitUntilExit()) as LiveViewResult
  } finally {
    stdin.setRawMode(false)
  }
}

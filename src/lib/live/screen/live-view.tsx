import {render} from 'ink'
import type {Selection, Watch} from '../model/model.js'
import type {BucketActions} from '../state/actions.js'
import {LiveView, type LiveViewResult} from './app.js'
import {WatchFeed} from './feed.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from './glyphs.js'
import {paletteFor} from './palette.js'

/** Bounds the delay of a key that follows a frame immediately. */
const MAX_FPS = 60

export interface LiveViewOptions {
  readonly stack: string
  readonly namespace: string
  readonly where: string
  readonly typedFlags?: string
  readonly ascii: boolean
  readonly top: number | undefined
  readonly selection: Selection
  readonly forMs: number | undefined
  /** Absent: the view cannot write. */
  readonly actions?: BucketActions | undefined
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
}

/** Runs until a key, a signal or `forMs` ends it. Does not start or stop the watch. */
export async function showLiveView(watch: Watch, options: LiveViewOptions): Promise<LiveViewResult> {
  const {stdin, stdout, selection, forMs, actions, ascii, ...place} = options
  const settings = {...place, glyphs: ascii ? ASCII_GLYPHS : BLOCK_GLYPHS}
  const palette = paletteFor(stdout.getColorDepth?.() ?? 1)
  const feed = new WatchFeed(watch)
  stdin.setRawMode(true)
  // Ink draws its first frame at the cursor, behind anything typed before.
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

import type {Watch} from '../../watch/model.js'
import type {StackContext} from '../base/context.js'
import type {Settings} from '../base/settings.js'
import {typedFlags} from '../base/settings.js'
import type {WatchRequest} from '../flags/watch.js'
import {withinTime} from '../output/time-limit.js'
import {pollLine} from './lines.js'
import {startWatch, whereOf} from './open.js'
import {keepHeapSmall} from './small-heap.js'
import {followWatch, type TwinResult} from './stream.js'

/** Buckets in each document of a stream, unless said otherwise. */
const USUAL_TOP = 10

/** How to show a watch. */
export interface WatchSurface {
  readonly ourVersion: string
  readonly settings: Settings
  readonly namespace: string
  readonly top: number | undefined
  readonly ascii: boolean
  readonly isJson: boolean
}

/** Watches until a key, a signal or the time ends it: on the whole screen where there is one, line by line elsewhere. */
export async function runWatch(stack: StackContext, request: WatchRequest, surface: WatchSurface): Promise<TwinResult> {
  keepHeapSmall()
  const startedAt = performance.now()
  const watch = await withinTime(request.forMs, signal => startWatch(stack, request, surface.ourVersion, signal))
  const rest = {...request, forMs: request.forMs && Math.max(0, request.forMs - (performance.now() - startedAt))}
  try {
    return await (canDraw(surface) ? draw(stack, watch, rest, surface) : print(watch, rest, surface))
  } finally {
    await watch.stop()
  }
}

/** Keys need a terminal to be typed on, and the screen one that can move its cursor. */
function canDraw({isJson}: WatchSurface): boolean {
  return process.stdin.isTTY && process.stdout.isTTY && process.env.TERM !== 'dumb' && !isJson
}

async function draw(
  {stack}: StackContext,
  watch: Watch,
  {selection, forMs}: WatchRequest,
  {settings, namespace, top, ascii}: WatchSurface,
): Promise<TwinResult> {
  const {showLiveView} = await import('../../ui/live-view.js')
  const {stdin, stdout} = process
  const place = {stack, namespace, where: whereOf(settings), typedFlags: typedFlags(settings)}
  return showLiveView(watch, {...place, ascii, top, selection, forMs, stdin, stdout})
}

function print(watch: Watch, {selection, forMs}: WatchRequest, {top, isJson}: WatchSurface): Promise<TwinResult> {
  const lineOf = isJson ? JSON.stringify : pollLine
  return followWatch(watch, {
    selection,
    forMs,
    top: isJson ? (top ?? USUAL_TOP) : 0,
    print: document => process.stdout.write(`${lineOf(document)}\n`),
  })
}

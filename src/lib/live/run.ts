import type {StackContext} from '../cli/base/context.js'
import {type Settings, typedFlags} from '../cli/base/settings.js'
import {withinTime} from '../cli/output/interrupt.js'
import {jsonText} from '../cli/output/json-text.js'
import {keepHeapSmall} from '../cli/output/long-list.js'
import {safeLine} from '../cli/output/paint.js'
import {InvalidInput} from '../core/errors.js'
import type {WatchRequest} from './flags.js'
import {pollLine} from './lines.js'
import type {Watch} from './model/model.js'
import {startWatch, whereOf} from './open.js'
import type {WatchResult} from './results.js'
import {followWatch, type WatchEnd} from './stream.js'

const DEFAULT_TOP = 10

export interface WatchSurface {
  readonly ourVersion: string
  readonly settings: Settings
  readonly namespace: string
  readonly top: number | undefined
  readonly ascii: boolean
  readonly isJson: boolean
  readonly canAct: boolean
}

export async function runWatch(stack: StackContext, request: WatchRequest, surface: WatchSurface): Promise<WatchEnd> {
  if (surface.canAct && !canDraw(surface)) throw actionsUnavailable()
  keepHeapSmall()
  const startedAt = performance.now()
  const place = {ourVersion: surface.ourVersion, where: typedFlags(surface.settings)}
  const watch = await withinTime(request.forMs, signal => startWatch(stack, request, place, signal))
  const rest = {...request, forMs: request.forMs && Math.max(0, request.forMs - (performance.now() - startedAt))}
  try {
    return await (canDraw(surface) ? draw(stack, watch, rest, surface) : print(watch, rest, surface))
  } finally {
    await watch.stop()
  }
}

function canDraw({isJson}: WatchSurface): boolean {
  return process.stdin.isTTY && process.stdout.isTTY && process.env.TERM !== 'dumb' && !isJson
}

export function actionsUnavailable(): InvalidInput {
  return new InvalidInput('watch.actions', '--actions needs the live view on a terminal.', {
    hint: 'Omit --once, --json and --output, and redirect neither input nor output; or omit --actions.',
  })
}

async function draw(
  stack: StackContext,
  watch: Watch,
  {selection, forMs}: WatchRequest,
  {settings, namespace, top, ascii, canAct}: WatchSurface,
): Promise<WatchEnd> {
  const {showLiveView} = await import('./screen/live-view.js')
  const {stdin, stdout} = process
  const place = {stack: stack.stack, namespace, where: whereOf(settings), typedFlags: typedFlags(settings)}
  // Without the flag, no code that can write is loaded.
  const ended = new AbortController()
  const actions = canAct
    ? (await import('./actions/actions.js')).bucketActions(stack, settings, ended.signal)
    : undefined
  try {
    return await showLiveView(watch, {...place, ascii, top, selection, forMs, actions, stdin, stdout})
  } finally {
    ended.abort()
  }
}

function print(watch: Watch, {selection, forMs}: WatchRequest, {top, isJson}: WatchSurface): Promise<WatchEnd> {
  const lineOf = isJson ? jsonText : (document: WatchResult) => safeLine(pollLine(document))
  return followWatch(watch, {
    selection,
    forMs,
    top: isJson ? (top ?? DEFAULT_TOP) : 0,
    print: document => process.stdout.write(`${lineOf(document)}\n`),
  })
}

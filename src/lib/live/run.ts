import type {StackContext} from '../cli/base/context.js'
import {type Settings, typedFlags} from '../cli/base/settings.js'
import {listenForEnd, withinTime} from '../cli/output/interrupt.js'
import {jsonText} from '../cli/output/json-text.js'
import {plainLine, safeLine} from '../cli/output/lines.js'
import {keepHeapSmall, keepHeapSmallest} from '../cli/output/long-list.js'
import {InvalidInput} from '../core/errors.js'
import {needEntity, needResource} from '../insight/lookup/known-names.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {type Table, untilAborted} from '../repository/table/table.js'
import {type WatchedBuckets, watchDocument, watchedBuckets} from './document.js'
import type {WatchRequest} from './flags.js'
import {healthSource} from './health.js'
import {pollLine} from './lines.js'
import type {PollFacts, Selection, SortKey, Watch, WatchData, WatchScope, WhySource} from './model/model.js'
import {takeReadings} from './poll/poller.js'
import {openWatch} from './poll/watch.js'
import type {WatchResult} from './results.js'
import {countPoll, summaryLine, type ViewStats} from './screen/frame.js'

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
  const watch = await withinTime(request.forMs, signal => startWatch(stack, request, surface, signal))
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
    hint: 'Omit --actions, or omit --once, --json and --output and do not redirect input or output.',
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
  // Without --actions, no code that can write is loaded.
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

/** Resolves after the first poll. Throws for an unknown resource or entity. */
async function startWatch(
  stack: StackContext,
  {scope, intervalMs}: WatchRequest,
  {ourVersion, settings}: WatchSurface,
  signal: AbortSignal,
): Promise<Watch> {
  const repository = await stack.namespace()
  signal.throwIfAborted()
  const {table} = stack
  const health = healthSource(stack, ourVersion)
  const why = whySource(repository, table, typedFlags(settings))
  const watch = openWatch({repository, table, scope, intervalMs, health, why})
  signal.addEventListener('abort', () => watch.stop(), {once: true})
  await watch.start()
  try {
    await needScope(repository, scope, watch.data())
    return watch
  } catch (error) {
    await watch.stop()
    throw error
  }
}

const RATE_SORTS: ReadonlySet<SortKey> = new Set(['rate', 'empty', 'pressure'])

/** Reads twice, an interval apart, if the order needs rates. Throws for an unknown resource or entity. */
export function takeSnapshot(
  stack: StackContext,
  {scope, selection, forMs, intervalMs, isWhole}: WatchRequest,
  top: number | undefined,
): Promise<WatchedBuckets> {
  return withinTime(forMs, async signal => {
    const repository = await stack.namespace()
    if (isWhole) keepHeapSmallest()
    const againAfterMs = RATE_SORTS.has(selection.sort) ? intervalMs : undefined
    const result = await takeReadings(repository, stack.table, scope, {signal, againAfterMs, isWhole})
    await needScope(repository, scope, result)
    return watchedBuckets({...result, problem: undefined}, stack.table.clock(), selection, top)
  })
}

function whereOf({stack, endpointUrl, region, profile}: Settings): string {
  if (endpointUrl.value) return URL.canParse(endpointUrl.value) ? new URL(endpointUrl.value).host : endpointUrl.value
  if (stack.value === 'local') return 'this machine'
  return region.value ?? (profile.value ? `profile ${profile.value}` : 'AWS')
}

export async function needScope(
  repository: NamespaceRepository,
  scope: WatchScope,
  {known}: Pick<WatchData, 'known'>,
): Promise<void> {
  if (known.count > 0) return
  if (scope.kind === 'resource') await needResource(repository, scope.resource)
  if (scope.kind === 'entity') await needEntity(repository, scope.entity)
}

export function whySource(repository: NamespaceRepository, table: Table, where: string): WhySource {
  return async ({entity, resource}, signal) => {
    const [{explain}, {whyLines}, {NamespaceRepository: Namespace}] = await Promise.all([
      import('../insight/why/explain.js'),
      import('../cli/acquire/why-presenter.js'),
      import('../repository/repository.js'),
    ])
    // A new instance has no cache, and the signal aborts its requests.
    const bound = untilAborted({...table, namespace: repository.id}, signal)
    const explanation = await explain(new Namespace(bound, undefined), {entity, resource}, table.clock)
    return whyLines(explanation, where).map(plainLine)
  }
}

export interface FollowOptions {
  readonly selection: Selection
  readonly top: number
  readonly forMs: number | undefined
  readonly print: (document: WatchResult) => void
}

export interface WatchEnd {
  readonly exitCode: number
  readonly summary: string
  readonly performed?: readonly string[]
}

export async function followWatch(watch: Watch, {selection, top, forMs, print}: FollowOptions): Promise<WatchEnd> {
  let stats: ViewStats = {startedAtMs: watch.now(), polls: 0, readUnits: 0, lastPoll: 0}
  let last: Pick<WatchData, 'lastPoll' | 'problem'> = {lastPoll: undefined, problem: undefined}
  const printPoll = (): void => {
    const data = watch.data()
    const {lastPoll, problem} = data
    if (!lastPoll || (lastPoll === last.lastPoll && problem === last.problem)) return
    last = {lastPoll, problem}
    stats = countPoll(stats, lastPoll)
    print(watchDocument({...data, lastPoll}, watch.now(), selection, top))
  }
  const unsubscribe = watch.subscribe(printPoll)
  const end = listenForEnd(forMs)
  try {
    printPoll()
    const exitCode = await end.reached
    const data = watch.data()
    const nowMs = watch.now()
    const {head} = watchedBuckets({...data, lastPoll: data.lastPoll as PollFacts}, nowMs, selection, 0)
    return {exitCode, summary: summaryLine({totals: head.totals, all: head.bucketsWatched}, stats, nowMs)}
  } finally {
    end.stop()
    unsubscribe()
  }
}

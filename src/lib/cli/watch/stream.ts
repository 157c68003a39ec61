import {EXIT} from '../../core/errors.js'
import {countPoll, summaryLine, type ViewStats} from '../../ui/model/summary.js'
import type {Selection, Watch, WatchData} from '../../watch/model.js'
import {rank} from '../../watch/rank.js'
import {liveCount, totalsAt} from '../../watch/totals.js'
import {type WatchDocument, watchDocument} from './document.js'

export interface TwinOptions {
  readonly selection: Selection
  /** Buckets in each document. */
  readonly top: number
  /** Ms after which it ends; `undefined`: never. */
  readonly forMs: number | undefined
  readonly print: (document: WatchDocument) => void
}

/** How it ended, and what to say about it. */
export interface TwinResult {
  readonly exitCode: number
  readonly summary: string
}

/** Follows a started watch without drawing: one document per poll, failed ones included, until a signal or the time ends it. */
export async function followWatch(watch: Watch, {selection, top, forMs, print}: TwinOptions): Promise<TwinResult> {
  let stats: ViewStats = {startedAtMs: watch.now(), polls: 0, readUnits: 0, lastPoll: 0}
  let last: Pick<WatchData, 'lastPoll' | 'problem'> = {lastPoll: undefined, problem: undefined}
  const tell = (): void => {
    const data = watch.data()
    const {lastPoll, problem} = data
    if (!lastPoll || (lastPoll === last.lastPoll && problem === last.problem)) return
    last = {lastPoll, problem}
    stats = countPoll(stats, lastPoll)
    print(watchDocument({...data, lastPoll}, watch.now(), selection, top))
  }
  const unsubscribe = watch.subscribe(tell)
  const end = listenForEnd(forMs)
  try {
    tell()
    const exitCode = await end.reached
    return {exitCode, summary: closingLine(watch, selection, stats)}
  } finally {
    end.stop()
    unsubscribe()
  }
}

/** About the buckets that the lines before were about. */
function closingLine(watch: Watch, selection: Selection, stats: ViewStats): string {
  const {readings} = watch.data()
  const nowMs = watch.now()
  const ids = rank(readings.values(), nowMs, selection)
  const totals = totalsAt(
    ids.flatMap(id => readings.get(id) ?? []),
    nowMs,
  )
  return summaryLine({totals, all: liveCount(readings)}, stats, nowMs)
}

/** The first of the time and the signals; a second signal does not wait. */
function listenForEnd(forMs: number | undefined): {reached: Promise<number>; stop: () => void} {
  let reach: (exitCode: number) => void = () => {}
  const reached = new Promise<number>(resolve => {
    reach = resolve
  })
  const onInterrupt = () => reach(EXIT.interrupted)
  const onTerminate = () => reach(EXIT.terminated)
  process.once('SIGINT', onInterrupt)
  process.once('SIGTERM', onTerminate)
  const timer = forMs === undefined ? undefined : setTimeout(() => reach(EXIT.ok), forMs)
  return {
    reached,
    stop: () => {
      process.off('SIGINT', onInterrupt)
      process.off('SIGTERM', onTerminate)
      clearTimeout(timer)
    },
  }
}

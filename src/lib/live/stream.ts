import {listenForEnd} from '../cli/output/interrupt.js'
import {watchDocument} from './document.js'
import type {Selection, Watch, WatchData} from './model/model.js'
import {ranking} from './model/rank.js'
import {totalsAt} from './model/totals.js'
import type {WatchResult} from './results.js'
import {countPoll, summaryLine, type ViewStats} from './screen/frame.js'

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
    return {exitCode, summary: closingLine(watch, selection, stats)}
  } finally {
    end.stop()
    unsubscribe()
  }
}

function closingLine(watch: Watch, selection: Selection, stats: ViewStats): string {
  const {readings} = watch.data()
  const nowMs = watch.now()
  const find = (id: string) => readings.get(id)
  const {ids, live} = ranking(readings.values(), nowMs, selection, find)
  const totals = totalsAt(
    ids.flatMap(id => readings.get(id) ?? []),
    nowMs,
    find,
  )
  return summaryLine({totals, all: live}, stats, nowMs)
}

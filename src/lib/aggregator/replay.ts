import {WINDOWS, type Window} from '../core/window.js'
import type {Table} from '../repository/table/table.js'
import {readRollups} from '../repository/usage/sum.js'
import {putBack} from './archiver.js'
import {Batch, type Log} from './batch.js'
import {addFromParts} from './recount.js'
import {Agenda} from './rollup/agenda.js'
import {agendaEntries, concernedDays} from './rollup/concerned.js'
import {countedWindows} from './rollup/plan.js'
import {RollUps} from './rollup/roll-ups.js'
import type {AggregatorSettings} from './settings.js'
import type {StreamEvent} from './stream-event.js'
import {addUsage, groupUsage, type UsageGroup} from './usage.js'

const DAY_SECONDS = 86_400

export type ReplayedWindow = Pick<UsageGroup, 'namespace' | 'entity' | 'resource' | 'window' | 'start'>

export interface ReplayOutcome {
  readonly records: number
  readonly changes: number
  readonly counted: number
  /** Usage records that have counted later changes: they do not tell whether these were counted. */
  readonly undecided: readonly ReplayedWindow[]
  /** Audit events that are in the table again, to expire and be archived. */
  readonly putBack: number
  /** Records that can never be counted, in whole or in part. */
  readonly uncounted: number
}

/**
 * Counts records that an aggregator gave up on, all of one range, exactly once. Changes of a bucket that come before others
 * that were counted since are in doubt. Hours stay undecided then; a day or a month is completed from its parts. Nothing is
 * refilled or split: the running aggregator does that. Throws when the table does not answer; what was done stays done.
 */
export async function replay(
  table: Table,
  event: StreamEvent,
  settings: Pick<AggregatorSettings, 'windows' | 'retentionDays'> & {readonly archives: boolean},
  log: Log,
): Promise<ReplayOutcome> {
  const batch = new Batch(event.Records, log)
  const {windows, retentionDays} = settings
  const ttlSeconds = retentionDays === 0 ? undefined : Math.floor(table.clock() / 1000) + retentionDays * DAY_SECONDS
  const undecided: ReplayedWindow[] = []
  const schedule = await readRollups(table)
  const windowsAt = (atMs: number) => countedWindows(schedule, windows, atMs)
  const agenda = new Agenda(table)
  for (const {entry} of agendaEntries(groupUsage(batch.changes, windowsAt), schedule, table.clock()))
    await agenda.enter(entry)
  // Fine windows first: coarse ones are recounted from them.
  for (const window of WINDOWS) {
    for (const group of groupUsage(batch.changes, atMs => windowsAt(atMs).filter(each => each === window))) {
      const {isCounted, overtaken, leftOut} = await addUsage(table, group, {ttlSeconds})
      const numbers = [...group.changes.values()].flat().map(change => change.sequenceNumber)
      const {changes: _, ...subject} = group
      if (leftOut.length > 0) batch.setAside(numbers, subject, leftOut)
      if (isCounted) batch.counts.snapshots++
      if (overtaken.length === 0) continue
      const isInDoubt = hasUndecidedPart(undecided, subject)
      const found = isInDoubt ? 'unknown' : await addFromParts(table, subject, windows, overtaken)
      if (found === 'unknown') undecided.push(subject)
      if (found === 'added') batch.counts.snapshots++
    }
  }
  const rollUps = new RollUps(table, async () => schedule)
  for (const {groups: _, ...day} of concernedDays(groupUsage(batch.changes, windowsAt)))
    await rollUps.afterCounting(batch, day)
  batch.counts.snapshots += batch.counts.rolledUp
  if (settings.archives) {
    for (const expired of batch.expired) {
      await putBack(table, expired)
      batch.counts.unarchived++
    }
  }
  const {counts} = batch.result(table.clock())
  const {records, buckets: changes, snapshots: counted, unarchived, uncounted} = counts
  return {records, changes, counted, undecided, putBack: unarchived, uncounted}
}

/** A sum of hours of which one is in doubt proves nothing about the day. */
function hasUndecidedPart(undecided: readonly ReplayedWindow[], whole: ReplayedWindow): boolean {
  const isFiner = (window: Window) => WINDOWS.indexOf(window) < WINDOWS.indexOf(whole.window)
  return undecided.some(
    ({namespace, entity, resource, window}) =>
      isFiner(window) && namespace === whole.namespace && entity === whole.entity && resource === whole.resource,
  )
}

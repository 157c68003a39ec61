import {valueFor} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {type CoarseWindow, type RollupSchedule, type Window, windowEndMs, windowStart} from '../../core/window.js'
import {ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {retrying} from '../../dynamo/retry.js'
import {queryInput} from '../../repository/table/query.js'
import {sendRepeatable, type Table} from '../../repository/table/table.js'
import {AFTER_ALL} from '../../repository/usage/range.js'
import {n, readString, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keyId, keys, parseItemKey, sortPrefix, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import type {UsageRecord} from '../../schema/usage-record.js'

export interface ResourceWindow {
  readonly namespace: string
  readonly resource: string
  readonly window: CoarseWindow
  readonly start: string
}

export interface AgendaEntry extends ResourceWindow {
  readonly cursor: string | undefined
}

/** Bounds the remembered entries; forgotten ones are entered again. */
const MOST_KNOWN = 100_000

/** Time until another process may take an entry: longer than a turn and the wait for the next one. */
const LEASE_MS = 180_000

/** After its end, an unswept window is forgotten. */
const FORGOTTEN_SECONDS = 40 * 86_400

const names = attributes.rollupAgenda

/** Windows to roll up once they are over, shared by all processes: one small record per resource and window. */
export class Agenda {
  readonly #table: Table
  readonly #id: string
  readonly #entered = new Set<string>()

  constructor(table: Table) {
    this.#table = table
    this.#id = Buffer.from(table.randomBytes(9)).toString('base64url')
  }

  async enter(entry: ResourceWindow): Promise<void> {
    const id = keyId(keyOf(entry))
    if (this.#entered.has(id)) return
    const forgottenAt = Math.floor(windowEndMs(entry.window, entry.start) / 1000) + FORGOTTEN_SECONDS
    const e = new ExpressionBuilder().setIfMissing(names.expiresAt, n(forgottenAt))
    await this.#update(entry, e)
    if (this.#entered.size >= MOST_KNOWN) this.#entered.clear()
    this.#entered.add(id)
  }

  /** Windows that are over and not leased by another process: days before months, oldest first. */
  async due(most: number): Promise<AgendaEntry[]> {
    const nowMs = this.#table.clock()
    const entries: AgendaEntry[] = []
    for (const window of ['daily', 'monthly'] as const) {
      const first = sortPrefix.rollupAgenda(window, '')
      const last = `${sortPrefix.rollupAgenda(window, lastSwept(window, nowMs))}${AFTER_ALL}`
      const e = new ExpressionBuilder()
      e.filter(this.#isFree(e, nowMs))
      const query = queryInput(this.#table, {...ranges.rollupAgenda(), between: [first, last]}, e)
      const request = {...query, ConsistentRead: false}
      const {Items = []} = await retrying(() => this.#table.transport.send('Query', request), this.#table.backoff)
      for (const item of Items) {
        const key = parseItemKey(item)
        if (key?.record !== 'rollup-agenda' || key.window !== window) continue
        entries.push({...key.of, window, start: key.start, cursor: readString(item, names.cursor)})
      }
    }
    return entries.slice(0, most)
  }

  /** Takes or renews the lease; `undefined` if another process has it or the entry is done. */
  async take(entry: ResourceWindow): Promise<AgendaEntry | undefined> {
    const nowMs = this.#table.clock()
    const e = new ExpressionBuilder()
    e.set(names.leasedBy, s(this.#id)).set(names.leasedUntil, n(nowMs + LEASE_MS))
    e.exists().condition(this.#isFree(e, nowMs))
    const taken = await this.#update(entry, e).catch(valueFor([ConditionFailed], undefined))
    return taken && {...entry, cursor: readString(taken.Attributes ?? {}, names.cursor)}
  }

  /** Stores where to continue, unless another process has taken the entry. */
  async keep(entry: ResourceWindow, cursor: string): Promise<void> {
    const e = new ExpressionBuilder().set(names.cursor, s(cursor))
    e.require(names.leasedBy, this.#id)
    await this.#update(entry, e).catch(valueFor([ConditionFailed], undefined))
  }

  async remove(entry: ResourceWindow): Promise<void> {
    const request = {TableName: this.#table.name, Key: wireKey(keyOf(entry))}
    await sendRepeatable(this.#table, 'DeleteItem', request)
  }

  #isFree(e: ExpressionBuilder, nowMs: number): string {
    const [by, until] = [e.name(names.leasedBy), e.name(names.leasedUntil)]
    return `attribute_not_exists(${by}) OR ${by} = ${e.value(s(this.#id))} OR ${until} < ${e.value(n(nowMs))}`
  }

  #update(entry: ResourceWindow, e: ExpressionBuilder) {
    const request = {
      TableName: this.#table.name,
      Key: wireKey(keyOf(entry)),
      ...e.update(),
      ReturnValues: 'ALL_NEW' as const,
    }
    return sendRepeatable(this.#table, 'UpdateItem', request)
  }
}

const keyOf = ({namespace, resource, window, start}: ResourceWindow) =>
  keys.rollupAgenda(window, start, namespace, resource)

type Counted = Pick<UsageRecord, 'namespace' | 'entity' | 'resource' | 'window' | 'start'>

export type ConcernedDay = Pick<UsageRecord, 'namespace' | 'entity' | 'resource'> & {readonly day: string}

const isHour = ({window}: Counted): boolean => window === 'hourly'

export function agendaEntries<T extends Counted>(
  groups: readonly T[],
  schedule: RollupSchedule,
  nowMs: number,
): {entry: ResourceWindow; groups: T[]}[] {
  const concerned = (['daily', 'monthly'] as const).flatMap(window =>
    groups.filter(isHour).flatMap(group => {
      const {namespace, resource} = group
      const start = startWithin(window, group.start)
      const isDue = schedule.isRolled(window, start) && !isLate(window, start, nowMs)
      return isDue ? [{entry: {namespace, resource, window, start}, group}] : []
    }),
  )
  return [...groupBy(concerned, ({entry}) => Object.values(entry).join('#')).values()].flatMap(members =>
    members[0] ? [{entry: members[0].entry, groups: members.map(({group}) => group)}] : [],
  )
}

export function concernedDays<T extends Counted>(groups: readonly T[]): (ConcernedDay & {groups: T[]})[] {
  const dayOf = ({namespace, entity, resource, start}: T): ConcernedDay => ({
    ...{namespace, entity, resource},
    day: startWithin('daily', start),
  })
  const byDay = groupBy(groups.filter(isHour), group => Object.values(dayOf(group)).join('#'))
  return [...byDay.values()].flatMap(members => (members[0] ? [{...dayOf(members[0]), groups: members}] : []))
}

/**
 * Ms after its end until a window is swept. After `LATE_MS`, the process that counts also rolls up. The gap covers
 * clock skew.
 */
const SWEPT_MS: Readonly<Record<CoarseWindow, number>> = {daily: 5 * 60_000, monthly: 60 * 60_000}
const LATE_MS: Readonly<Record<CoarseWindow, number>> = {daily: 60_000, monthly: 30 * 60_000}

export function isLate(window: CoarseWindow, start: string, nowMs: number): boolean {
  return nowMs >= windowEndMs(window, start) + LATE_MS[window]
}

function lastSwept(window: CoarseWindow, nowMs: number): string {
  const running = windowStart(window, nowMs - SWEPT_MS[window])
  return windowStart(window, Date.parse(running) - 1)
}

export const startWithin = (window: Window, start: string): string => windowStart(window, Date.parse(start))

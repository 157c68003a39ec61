import type {Amounts} from '../../core/buckets/bucket.js'
import {MILLI} from '../../core/token-math.js'
import {type RunRecord, type RunReturn, runEntity} from '../../schema/run-record.js'
import {readBucket} from '../buckets/reservations.js'
import type {NamespaceTable} from '../table/table.js'
import {spentOf} from './runs.js'

/** Tokens by limit; money in millionths. */
export type RunAmounts = Readonly<Record<string, number>>

/** A run now. */
export interface RunState {
  readonly id: string
  readonly name: string | undefined
  /** Whose tokens these are; of a sub-run, the entity of its parent. */
  readonly entity: string
  readonly resource: string
  readonly startedAtMs: number
  /** From then on its rest comes back. */
  readonly endsAtMs: number
  readonly endedAtMs: number | undefined
  readonly granted: RunAmounts
  /** Includes the amounts of open sub-runs. */
  readonly spent: RunAmounts
  /** Of the entity, as of its ancestors: spent + left + returned + lapsed = granted. 0 after the end. */
  readonly left: RunAmounts
  /** Negative if the run spent more than it had. */
  readonly returned: RunAmounts
  /** Not returned: the period of the quota has ended, or its bucket was deleted or reset. */
  readonly lapsed: RunAmounts
  /** Returned to the ancestors of the entity that were charged too. */
  readonly ancestors: ReadonlyArray<{
    readonly entity: string
    readonly returned: RunAmounts
    readonly lapsed: RunAmounts
  }>
  /** Ids of open sub-runs. */
  readonly subRuns: readonly string[]
}

const NONE: Amounts = new Map()

export async function readRunState(table: NamespaceTable, run: RunRecord): Promise<RunState> {
  const {id, resource, end} = run
  if (end) return stateOf(run, end.spent, end.returns)
  const shards = [...(await readBucket(table, runEntity(id), resource, 0)).values()]
  return stateOf(run, spentOf(run, shards), undefined)
}

function stateOf(run: RunRecord, spent: Amounts, returns: readonly RunReturn[] | undefined): RunState {
  const {id, name, entity, resource, startedAtMs, endsAtMs, granted, subRuns, end} = run
  const left = returns ? NONE : new Map([...granted].map(([limit, milli]) => [limit, milli - (spent.get(limit) ?? 0n)]))
  const levels = [...new Set(returns?.map(each => each.entity))]
  const own = returns?.some(each => each.entity === entity) ? entity : levels[0]
  const backOf = (level: string | undefined) => {
    const parts = returns?.filter(each => each.entity === level) ?? []
    return {
      returned: tokensOf(granted, new Map(parts.map(({limit, returnedMilli}) => [limit, returnedMilli]))),
      lapsed: tokensOf(granted, new Map(parts.map(({limit, lapsedMilli}) => [limit, lapsedMilli]))),
    }
  }
  return {
    ...{id, name, entity, resource, startedAtMs, endsAtMs, endedAtMs: end?.atMs},
    ...{granted: tokensOf(granted, granted), spent: tokensOf(granted, spent), left: tokensOf(granted, left)},
    ...backOf(own),
    ancestors: levels.filter(level => level !== own).map(level => ({entity: level, ...backOf(level)})),
    subRuns,
  }
}

function tokensOf(granted: Amounts, amounts: Amounts): RunAmounts {
  return Object.fromEntries([...granted.keys()].map(name => [name, Number(amounts.get(name) ?? 0n) / Number(MILLI)]))
}

import {formatCount, formatSpan, formatTokens, formatWait} from '../../core/text/text.js'
import type {BucketWithSlots} from '../../insight/lookup/bucket-search.js'
import {type BucketLevels, type LimitLevel, type ShardLevels, switchWord} from '../../repository/buckets/view.js'
import {isRunEntity} from '../../schema/run-record.js'
import {inFlightText, slotHoldersText} from '../holders/presenter.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {percentCell, plainTable} from '../output/text-table.js'
import type {LimitUnits} from '../usage/presenter.js'

interface LevelRow extends Partial<LimitLevel> {
  readonly entity: string
  readonly resource: string
  readonly shard: number | 'all'
  readonly view: ShardLevels | undefined
  readonly access: string
}

export function bucketTitle(entity: string, buckets: readonly BucketLevels[]): string {
  const [bucket] = buckets
  if (!bucket || buckets.length > 1) return `Buckets of ${entity}`
  const {resource, shardCount, parent, cascade} = bucket
  const shards = shardCount === 1 ? '' : `, ${shardCount} shards`
  const charged = cascade && parent !== null ? `, also charged to ${parent}` : ''
  const access = switchWord(bucket)
  return `Bucket of ${entity} · ${resource}${shards}${charged}${access === undefined ? '' : `, ${access}`}`
}

export function shardListing(
  buckets: readonly BucketLevels[],
  nowMs: number,
  isCsv: boolean,
  units: LimitUnits = new Map(),
): Listing<LevelRow> {
  return {
    rows: buckets.flatMap(bucket => [
      ...(bucket.shardCount > 1 ? bucket.limits.map(limit => rowOf(bucket, undefined, limit)) : []),
      ...bucket.shards.flatMap(shard => {
        const limits = shard.limits.map(limit => rowOf(bucket, shard, limit))
        return limits.length === 0 ? [rowOf(bucket, shard)] : limits
      }),
    ]),
    columns: [
      {name: 'entity', value: ({entity}) => entity, isExtra: !isCsv},
      {name: 'resource', value: ({resource}) => resource, isExtra: buckets.length === 1 && !isCsv},
      // With one bucket, the title shows it.
      accessColumn(buckets.length === 1 ? [] : buckets),
      {name: 'shard', align: 'right', value: ({shard, view}) => (view?.isGhost ? `${shard} (ghost)` : String(shard))},
      ...levelColumns(units, buckets),
      resetsColumn(buckets, nowMs),
      {
        name: 'pressure',
        align: 'right',
        fit: 'spare',
        value: ({view}) => percentCell(view?.writePressure),
        raw: ({view}) => view?.writePressure,
      },
      {name: 'writes', value: ({view}) => view?.writes, isExtra: true},
      {name: 'age', fit: 'spare', value: ({view}) => ageOf(view), raw: ({view}) => view?.refillAgeMs},
      {name: 'expires', fit: 'spare', value: ({view}) => expiryOf(view, nowMs), raw: ({view}) => view?.expiresAt},
    ],
    empty: 'No bucket: nothing was consumed yet, or the bucket has expired.',
  }
}

/** A line per in-flight limit: who holds its slots. */
export function inFlightLines(buckets: readonly BucketWithSlots[], nowMs: number): string[] {
  const rows = buckets.flatMap(({resource, inFlight}) =>
    inFlight.map(level => [
      ...(buckets.length > 1 ? [resource] : []),
      level.limit,
      inFlightText(level),
      slotHoldersText(level.holders, nowMs),
    ]),
  )
  if (rows.length === 0) return []
  const columns = (rows[0] ?? []).map(() => ({header: ''}))
  return ['', ...plainTable(columns, rows, {header: false})]
}

/** `isMore`: more buckets follow, so show optional columns that none of these needs. */
export function bucketListing(
  buckets: readonly BucketLevels[],
  nowMs: number,
  units: LimitUnits = new Map(),
  isMore = false,
): Listing<LevelRow & {readonly shards: number}> {
  return {
    rows: buckets.flatMap(bucket =>
      bucket.limits.map(limit => ({...rowOf(bucket, bucket.shards[0], limit), shards: bucket.shardCount})),
    ),
    columns: [
      {name: 'entity', value: ({entity}) => entity},
      {name: 'resource', value: ({resource}) => resource, isExtra: true},
      shownIf(isMore, accessColumn(buckets)),
      ...levelColumns(units, buckets).map(column => (column.name === 'topped-up' ? shownIf(isMore, column) : column)),
      shownIf(isMore, resetsColumn(buckets, nowMs)),
      {name: 'shards', value: ({shards}) => shards},
      {name: 'age', fit: 'spare', value: ({view}) => ageOf(view), raw: ({view}) => view?.refillAgeMs},
    ],
    empty: 'No buckets: nothing was consumed yet, or all buckets have expired.',
  }
}

const shownIf = <Row>(isMore: boolean, column: ListingColumn<Row>): ListingColumn<Row> =>
  isMore ? {...column, isExtra: false} : column

/** Limits in `units` are shown as money; CSV has numbers. */
function levelColumns(units: LimitUnits, buckets: readonly BucketLevels[]) {
  const amount = (name: 'level' | 'capacity' | 'debt' | 'toppedUp') => ({
    name,
    align: 'right' as const,
    value: (row: LevelRow) => {
      const [tokens, unit] = [row[name], units.get(row.name ?? '')]
      if (tokens === undefined || unit === undefined) return tokens === undefined ? undefined : formatCount(tokens)
      // A level in money is rounded down, so a debt is rounded up.
      return formatTokens(name === 'debt' ? Math.ceil(tokens) : Math.floor(tokens), unit)
    },
    raw: (row: LevelRow) => row[name],
  })
  return [
    {name: 'limit', value: ({name}: LevelRow) => name},
    amount('level'),
    amount('capacity'),
    {
      name: 'full',
      align: 'right' as const,
      value: (row: LevelRow) => percentCell(fullness(row)),
      raw: (row: LevelRow) => fullness(row),
    },
    {...amount('debt'), fit: 'spare' as const},
    {
      ...amount('toppedUp'),
      name: 'topped-up',
      header: 'TOPPED UP',
      isExtra: !buckets.some(({limits}) => limits.some(({toppedUp}) => toppedUp !== undefined)),
    },
    {
      name: 'refill',
      fit: 'spare' as const,
      header: 'REFILL/S',
      value: ({refillPerSecond}: LevelRow) => refillPerSecond,
    },
  ]
}

function rowOf(bucket: BucketLevels, view: ShardLevels | undefined, limit?: LimitLevel): LevelRow {
  const {entity, resource} = bucket
  return {entity, resource, shard: view?.shard ?? 'all', view, access: switchWord(bucket) ?? 'enabled', ...limit}
}

function resetsColumn(buckets: readonly BucketLevels[], nowMs: number) {
  const value = ({entity, quota, resetsAt}: LevelRow) => {
    if (!quota) return undefined
    if (isRunEntity(entity)) return 'never'
    const when = resetsAt === undefined ? 'with next use' : `in ${formatWait(Date.parse(resetsAt) - nowMs)}`
    return quota === 'session' ? `session, ${when}` : when
  }
  const isExtra = !buckets.some(({limits}) => limits.some(({quota}) => quota))
  return {name: 'resets', isExtra, value, raw: ({resetsAt}: LevelRow) => resetsAt}
}

function accessColumn(buckets: readonly BucketLevels[]) {
  const isExtra = buckets.every(bucket => switchWord(bucket) === undefined)
  return {name: 'access', isExtra, value: ({access}: LevelRow) => access}
}

/** 0 when in debt. */
function fullness({level, capacity}: LevelRow): number | undefined {
  if (level === undefined || capacity === undefined || capacity === 0) return undefined
  return Math.max(0, level) / capacity
}

function ageOf(view: ShardLevels | undefined): string | undefined {
  return view?.refillAgeMs === null || view === undefined ? undefined : formatSpan(view.refillAgeMs)
}

function expiryOf(view: ShardLevels | undefined, nowMs: number): string | undefined {
  if (!view || view.isGhost) return undefined
  if (view.expiresAt === null) return 'never'
  const leftMs = Date.parse(view.expiresAt) - nowMs
  return leftMs > 0 ? `in ${formatSpan(leftMs)}` : 'soon'
}

import type {Amounts} from '../core/buckets/bucket.js'
import type {Limit} from '../core/limits/limit.js'
import {type Item, n, readNumber, readString, s, texts} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {encodeConfig} from './config-record.js'
import {indexKeys, keys, parseItemKey} from './keys.js'
import type {ReservedTokens} from './reservation-record.js'

/** An amount that was moved from a bucket of an entity to a bucket of its own, until an end. */
export interface RunRecord {
  readonly namespace: string
  readonly id: string
  /** For people. */
  readonly name: string | undefined
  /** Whose tokens these are. Of a sub-run, its parent's entity. */
  readonly entity: string
  /** Of the source's bucket and of the run's. */
  readonly resource: string
  readonly startedAtMs: number
  /** From then on anybody may end it. */
  readonly endsAtMs: number
  /** In millitokens. */
  readonly granted: Amounts
  /** Where they came from: bucket items of the entity, then of its ancestors. Without bypassed ones. */
  readonly sources: readonly ReservedTokens[]
  /** Of the run's bucket. One that was deleted or reset has another. */
  readonly incarnation: string
  /** Ids of open runs that took tokens from this one. */
  readonly subRuns: readonly string[]
  /** Absent while the run is open. */
  readonly end?: RunEnd | undefined
}

export interface RunEnd {
  readonly atMs: number
  /** In millitokens. */
  readonly spent: Amounts
  readonly returns: readonly RunReturn[]
}

/**
 * The rest of one limit after the end, at the entity or an ancestor. For each of them, spent + returned + lapsed =
 * granted. Negative if the run spent more than it had: the excess is charged.
 */
export interface RunReturn {
  readonly entity: string
  readonly limit: string
  readonly returnedMilli: bigint
  /** Tokens of a former period, or of a bucket that was deleted or reset, do not come back. */
  readonly lapsedMilli: bigint
}

const names = attributes.run

/** Epoch ms have 13 digits until the year 2286; so the texts sort by time. */
const INSTANT_DIGITS = 13

const SEPARATOR = '.'

/** Unlike ids that people choose. */
const ENTITY_PREFIX = 'zael.run:'

/** The entity of the run's bucket. */
export const runEntity = (id: string): string => `${ENTITY_PREFIX}${id}`

/** Its tokens are those of another entity, so sums over entities leave it out. */
export const isRunEntity = (entity: string): boolean => entity.startsWith(ENTITY_PREFIX)

export const isRunId = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_.-]{0,200}$/.test(text)

export const subRunId = (parent: string, part: string): string => `${parent}${SEPARATOR}${part}`

export const parentRunId = (id: string): string | undefined =>
  id.split(SEPARATOR).slice(0, -1).join(SEPARATOR) || undefined

/** 0: it took tokens from an entity, not from a run. */
export const depthOfRun = (id: string): number => id.split(SEPARATOR).length - 1

/** Ended runs are kept for a week, for people and for late settlements, in seconds. */
const RUN_KEPT_SECONDS = 7 * 86_400

export const runExpiry = (nowMs: number): number => Math.floor(nowMs / 1000) + RUN_KEPT_SECONDS

/** As in the sort keys of the namespace's index. */
export const instantKey = (ms: number): string => String(ms).padStart(INSTANT_DIGITS, '0')

type StoredTokens = Omit<ReservedTokens, 'milli'> & {readonly milli: string}

const spellAmounts = (amounts: Amounts): Record<string, string> =>
  Object.fromEntries([...amounts].map(([name, milli]) => [name, milli.toString()]))

const readAmounts = (stored: Record<string, string>): Map<string, bigint> =>
  new Map(Object.entries(stored).map(([name, milli]) => [name, BigInt(milli)]))

/**
 * The record is the configuration of the run's entity, so every client resolves the limits of the run's bucket as usual.
 * In the index, runs are apart: entities and configurations of people are listed without them.
 */
export function encodeRun(run: Omit<RunRecord, 'subRuns' | 'end'>, limits: readonly Limit[]): Item {
  const {namespace, id, name, entity, resource, startedAtMs, endsAtMs, granted, sources, incarnation} = run
  const scope = {level: 'entity', entity: runEntity(id), resource} as const
  const item = encodeConfig({namespace, scope, limits, onUnavailable: undefined, auditRetentionDays: undefined})
  for (const key of keyNames(indexes.entity)) delete item[key]
  const grant = {
    ...{entity, incarnation, granted: spellAmounts(granted)},
    sources: sources.map(({milli, ...rest}): StoredTokens => ({...rest, milli: milli.toString()})),
  }
  return {
    ...item,
    ...runIndexKeys({namespace, id, endsAtMs}),
    ...(name !== undefined && {[names.name]: s(name)}),
    [names.startedAt]: n(startedAtMs),
    [names.endsAt]: n(endsAtMs),
    [names.grant]: s(JSON.stringify(grant)),
  }
}

export function runIndexKeys({
  namespace,
  id,
  endsAtMs,
  end,
}: Pick<RunRecord, 'namespace' | 'id' | 'endsAtMs' | 'end'>): Item {
  return texts(
    end
      ? indexKeys.endedRun(namespace, instantKey(end.atMs), id)
      : indexKeys.openRun(namespace, instantKey(endsAtMs), id),
  )
}

export function spellRunEnd({atMs, spent, returns}: RunEnd): string {
  const spelled = returns.map(({returnedMilli, lapsedMilli, ...rest}) => ({
    ...rest,
    returned: returnedMilli.toString(),
    lapsed: lapsedMilli.toString(),
  }))
  return JSON.stringify({atMs, spent: spellAmounts(spent), returns: spelled})
}

/** `undefined`: no run, or one that cannot be read, so that it stays charged. */
export function decodeRun(item: Item): RunRecord | undefined {
  try {
    return readRunItem(item)
  } catch {
    return undefined
  }
}

function readRunItem(item: Item): RunRecord | undefined {
  const key = parseItemKey(item)
  const grantText = readString(item, names.grant)
  const [startedAtMs, endsAtMs] = [readNumber(item, names.startedAt), readNumber(item, names.endsAt)]
  if (key?.record !== 'entity-config' || grantText === undefined) return undefined
  if (startedAtMs === undefined || endsAtMs === undefined || !isRunEntity(key.entity)) return undefined
  const grant: {entity: string; incarnation: string; granted: Record<string, string>; sources: StoredTokens[]} =
    JSON.parse(grantText)
  const subRuns = item[names.subRuns]
  return {
    namespace: key.namespace,
    id: key.entity.slice(ENTITY_PREFIX.length),
    name: readString(item, names.name),
    entity: grant.entity,
    resource: key.resource,
    startedAtMs,
    endsAtMs,
    granted: readAmounts(grant.granted),
    sources: grant.sources.map(({milli, ...rest}) => ({...rest, milli: BigInt(milli)})),
    incarnation: grant.incarnation,
    subRuns: subRuns && 'SS' in subRuns ? subRuns.SS : [],
    end: decodeEnd(readString(item, names.end)),
  }
}

function decodeEnd(text: string | undefined): RunEnd | undefined {
  if (text === undefined) return undefined
  const {atMs, spent, returns} = JSON.parse(text) as {
    atMs: number
    spent: Record<string, string>
    returns: (Pick<RunReturn, 'entity' | 'limit'> & {returned: string; lapsed: string})[]
  }
  return {
    atMs,
    spent: readAmounts(spent),
    returns: returns.map(({returned, lapsed, ...rest}) => ({
      ...rest,
      returnedMilli: BigInt(returned),
      lapsedMilli: BigInt(lapsed),
    })),
  }
}

/** The run of an item of the namespace's index, which has only keys. */
export function runIdIn(item: Item): {readonly id: string; readonly resource: string} | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'entity-config' || !isRunEntity(key.entity)) return undefined
  return {id: key.entity.slice(ENTITY_PREFIX.length), resource: key.resource}
}

export const runKey = (namespace: string, id: string, resource: string) =>
  keys.entityConfig(namespace, runEntity(id), resource)

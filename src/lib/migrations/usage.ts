import {keyId} from '../dynamo/batch.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {readAll} from '../repository/query.js'
import {wireKey} from '../repository/table.js'
import type {TransactItem} from '../repository/transact.js'
import {type Item, type Key, n, s} from '../schema/attribute-value.js'
import {indexKeys, keys, sortPrefix} from '../schema/keys.js'
import {
  decodeUsageMarks,
  encodeUsageMarks,
  MIGRATION_MARK,
  readMigrationMark,
  type UsageShare,
} from '../schema/migration-marks.js'
import {decodeUsage} from '../schema/usage-record.js'
import {classify} from './classify.js'
import {removeMark, sendConditional} from './conditional.js'
import {readItems, spelledIn} from './copied-records.js'
import {beginningIn, eachOf, type Finding, type Found, groupBy, homeOf, type Stage} from './finding.js'
import {isExpired} from './old-bucket.js'
import {type Counters, mergeUsageDay, minus, type UsageDay, type UsageTarget} from './usage-merge.js'

type FoundUsage = Found<'usage'>

/** The old records of one entity, resource and day: midnight's counts other hours as well (D-11). */
interface Day {
  readonly home: string
  /** The namespace id in the old keys, empty where they have none. */
  readonly origin: string
  readonly entity: string
  readonly resource: string
  readonly sources: readonly Item[]
  readonly merged: UsageDay
}

/** Usage: today's records get what the old ones have counted, less what they got before. */
export async function lookAtUsage(stage: Stage, found: readonly FoundUsage[]): Promise<Finding[]> {
  const nowMs = stage.table.clock()
  const expired = found.filter(({item}) => isExpired(item, nowMs))
  const groups = groupBy(
    found.filter(({item}) => !isExpired(item, nowMs)),
    ({record}) => [record.namespace ?? '', record.entity, record.resource, record.start.slice(0, 10)].join('#'),
  )
  const begins = beginningIn(found)
  const days = await eachOf([...groups.values()], ([first]) => readDay(stage, (first as FoundUsage).record))
  const begun = days.filter(({sources}) => begins(sources))
  const current = await readItems(
    stage,
    begun.flatMap(day => day.merged.targets.map(target => keyOfTarget(day, target))),
  )
  return [
    ...expired.map(({item}): Finding => ({type: 'usage', sources: [item], state: 'expired'})),
    ...begun.map(day => compareDay(stage, day, current)),
  ]
}

async function readDay(stage: Stage, record: FoundUsage['record']): Promise<Day> {
  const {namespace: origin = '', entity, resource, start} = record
  const home = homeOf(stage, record)
  const partition = `${origin === '' ? '' : `${origin}/`}ENTITY#${entity}`
  const prefix = `${sortPrefix.usage(resource)}${start.slice(0, 10)}`
  const sources: Item[] = []
  for await (const item of readAll(stage.table, {partition, prefix}, undefined, stage.signal)) {
    if (classify(item, stage).kind === 'old' && !isExpired(item, stage.table.clock())) sources.push(item)
  }
  const merged = mergeUsageDay(sources.flatMap(item => decodeUsage(spelledIn(home, item)) ?? []))
  return {home, origin, entity, resource, sources, merged}
}

function compareDay(stage: Stage, day: Day, seen: ReadonlyMap<string, Item>): Finding {
  const {sources, merged} = day
  const targets = merged.targets.map(target => ({target, current: seen.get(keyId(keyOfTarget(day, target)))}))
  const changes = targets.flatMap(({target, current}) => changeOf(day, target, current) ?? [])
  const common = {type: 'usage', sources, decision: merged.decision} as const
  if (changes.length === 0) {
    const onDelete = targets.flatMap(({current}) => (current ? forgetShare(stage, day, current) : []))
    return {...common, state: 'same', onDelete}
  }
  const write = async () => {
    for (const change of changes) if (!(await writeChange(stage, day, change))) return false
    return true
  }
  return {...common, state: 'behind', says: 'counts differ', write}
}

interface Change {
  readonly target: UsageTarget
  readonly difference: Counters
  readonly before: string | undefined
}

const keyOfTarget = ({home, entity, resource}: Day, {window, start}: UsageTarget): Key =>
  keys.usage(home, entity, resource, window, start)

function changeOf(day: Day, target: UsageTarget, current: Item | undefined): Change | undefined {
  const before = readMigrationMark(current)
  const share: UsageShare | undefined = decodeUsageMarks(before)[day.origin]
  // Hours expire one by one. What was told apart with more of them known stays.
  if (share && target.hours < share.hours) return undefined
  // Nothing to count, and nothing was counted before.
  if (!share && Object.keys(target.counters).length === 0) return undefined
  const difference = minus(target.counters, share?.counters ?? {})
  return share && Object.keys(difference).length === 0 ? undefined : {target, difference, before}
}

/** What old items of another origin have given stays known. */
function forgetShare(stage: Stage, {origin}: Day, current: Item): TransactItem[] {
  const {[origin]: share, ...others} = decodeUsageMarks(readMigrationMark(current))
  if (!share) return []
  return [removeMark(stage, current, Object.keys(others).length === 0 ? undefined : encodeUsageMarks(others))]
}

/** One conditional ADD: a repetition finds another mark and adds nothing. */
function writeChange(stage: Stage, day: Day, {target, difference, before}: Change): Promise<boolean> {
  const {home, origin, entity, resource} = day
  const {window, start, counters, hours, ttlSeconds} = target
  const e = new ExpressionBuilder()
  const mark = e.name(MIGRATION_MARK)
  e.condition(before === undefined ? `attribute_not_exists(${mark})` : `${mark} = ${e.value(s(before))}`)
  e.set(MIGRATION_MARK, s(encodeUsageMarks({...decodeUsageMarks(before), [origin]: {counters, hours}})))
  for (const [name, change] of Object.entries(difference)) e.add(name, n(change))
  const key = keyOfTarget(day, target)
  const fixed = {
    entity_id: entity,
    resource,
    window,
    window_start: start,
    ...indexKeys.usageOfResource(home, resource, start, entity),
    ...indexKeys.inNamespace(home, key.PK),
  }
  for (const [name, value] of Object.entries(fixed)) e.setIfMissing(name, s(value))
  if (ttlSeconds !== undefined) e.setIfMissing('ttl', n(ttlSeconds))
  return sendConditional(stage, 'UpdateItem', {Key: wireKey(key), ...e.update()})
}

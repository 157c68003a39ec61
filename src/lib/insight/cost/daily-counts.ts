import type {DeepReadonly} from '../../core/deep-readonly.js'
import type {NamespaceRepository, Repository} from '../../repository/repository.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {AskedUsage} from '../usage/usage-asked.js'
import type {UsageSubject} from '../usage/usage-report.js'
import {resourcesInUse} from '../usage/usage-top.js'

interface CountedResource {
  readonly namespace: NamespaceRepository
  readonly resource: string
}

export type CountedDays = DeepReadonly<Awaited<ReturnType<typeof countDays>>>

/** Reads complete days first, newest first, then today. Drops a day if `hasBudget` turns false while it is read. */
export async function countDays(repository: Repository, days: readonly Day[], hasBudget: () => boolean) {
  const {resources, hasAllResources} = await findResources(repository, hasBudget)
  const counted = new Map<string, DayCounts>()
  const unread: string[] = []
  const inTurn = [...days.filter(({isComplete}) => isComplete).reverse(), ...days.filter(each => !each.isComplete)]
  for (const day of inTurn) {
    const counts = hasBudget() ? await countDay(resources, day, hasBudget) : undefined
    if (!counts) unread.push(day.date)
    else if (counts.perBucket.length > 0) counted.set(day.date, counts)
  }
  // Days without usage records are absent. `hasAllResources`: false if there are more buckets than the search reads.
  return {days: counted, unread: unread.sort(), hasAllResources}
}

async function findResources(repository: Repository, hasBudget: () => boolean) {
  const resources: CountedResource[] = []
  let hasAllResources = true
  for (const {id} of await repository.namespaces.list()) {
    if (!hasBudget()) return {resources, hasAllResources: false}
    const namespace = repository.namespaceById(id)
    const found = await resourcesInUse(namespace)
    resources.push(...found.resources.map(resource => ({namespace, resource})))
    hasAllResources &&= found.complete
  }
  return {resources, hasAllResources}
}

export type DayCounts = DeepReadonly<NonNullable<Awaited<ReturnType<typeof countDay>>>>

async function countDay(
  resources: readonly CountedResource[],
  {startMs: sinceMs, endMs: untilMs}: Day,
  hasBudget: () => boolean,
) {
  let [admitted, refused] = [0, 0]
  const perBucket: number[] = []
  for (const {namespace, resource} of resources) {
    const range = {resource, sinceMs, untilMs}
    const daily = await readRecords(namespace, {...range, window: 'daily'}, hasBudget)
    // Some stacks have no daily windows.
    const records = daily.length > 0 ? daily : await readRecords(namespace, {...range, window: 'hourly'}, hasBudget)
    if (!hasBudget()) return undefined
    const byEntity = new Map<string, number>()
    const asked = new AskedUsage(namespace, ({totalEvents}) => {
      admitted += Math.max(0, totalEvents)
    })
    for (const record of records) {
      await asked.add(record)
      refused += record.refused?.requests ?? 0
      byEntity.set(record.entity, (byEntity.get(record.entity) ?? 0) + Math.max(0, record.totalEvents))
    }
    await asked.end()
    perBucket.push(...byEntity.values())
  }
  return {
    /** A request that is also charged to a parent counts once. */
    admitted,
    /** Counted at each bucket that refused. */
    refused,
    /** Charged requests of each used bucket. A parent's count includes its children's. */
    perBucket,
  }
}

async function readRecords(
  {usage}: NamespaceRepository,
  subject: UsageSubject,
  hasBudget: () => boolean,
): Promise<UsageRecord[]> {
  const records: UsageRecord[] = []
  for await (const record of usage.records(subject)) {
    if (!hasBudget()) break
    records.push(record)
  }
  return records
}

const DAY_MS = 86_400_000

/** A day in UTC. `date` is `YYYY-MM-DD`. */
export interface Day {
  readonly date: string
  readonly startMs: number
  /** Exclusive. For today: now. */
  readonly endMs: number
  readonly isComplete: boolean
}

/** `count` complete days and today so far, oldest first. */
export function daysUntil(nowMs: number, count: number): Day[] {
  const todayMs = Math.floor(nowMs / DAY_MS) * DAY_MS
  return Array.from({length: count + 1}, (_, at) => {
    const startMs = todayMs - (count - at) * DAY_MS
    const isComplete = at < count
    return {date: dateOf(startMs), startMs, endMs: isComplete ? startMs + DAY_MS : Math.floor(nowMs) + 1, isComplete}
  })
}

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

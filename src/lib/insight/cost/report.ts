import type {DeepReadonly} from '../../core/deep-readonly.js'
import {formatList} from '../../core/text/text.js'
import {CapacityMeter, meteredTransport} from '../../dynamo/capacity.js'
import type {Aws} from '../../infra/aws/clients.js'
import {Repository} from '../../repository/repository.js'
import type {Table} from '../../repository/table/table.js'
import {type CountedDays, countDays, type Day, type DayCounts, daysUntil} from './daily-counts.js'
import {type MeasuredStack, type PricedTable, readMeasured, readPricedTable, type UnreadSource} from './measured.js'
import {
  averageParts,
  type CostPart,
  estimateDay,
  fixedParts,
  LIST_REGION,
  measuredDay,
  sum,
  trafficParts,
} from './parts.js'

/** Reading stops after about this many units, which cost less than a cent. */
const MOST_READ_UNITS = 50_000

export interface CostSources {
  readonly table: Table
  /** `undefined`: a local engine, which has no CloudWatch. */
  readonly aws: Aws | undefined
  /** Complete days. Today so far is added. */
  readonly dayCount: number
  readonly runsAggregator?: boolean | undefined
}

/** `null`: unknown or not measured, as the schema of `zael cost` says of each field. */
export type CostReport = DeepReadonly<Awaited<ReturnType<typeof reportCost>>>

/** `perMillion`: dollars per million decisions. `null`: independent of traffic, or decisions are unknown. */
export type ReportedPart = CostReport['parts'][number]

/** Read-only. Throws if the table does not exist. */
export async function reportCost({table, aws, dayCount, runsAggregator}: CostSources) {
  const facts = await readPricedTable(table)
  const meter = new CapacityMeter()
  const transport = meteredTransport(table.transport, meter)
  const repository = new Repository({stack: table.name, transport, clock: table.clock})
  const days = daysUntil(table.clock(), dayCount)
  const [counted, stack] = await Promise.all([
    countDays(repository, days, () => meter.read < MOST_READ_UNITS),
    readMeasured(aws, {table: table.name, facts, days}),
  ])
  const found = days.flatMap(day => foundDay(day, {counted, stack, facts}))
  const over = found.filter(({day}) => day.isComplete)
  const averaged = over.length > 0 ? over : found
  const traffic = averageParts(averaged.map(({parts}) => parts))
  const fixed = fixedParts(facts, stack.monitoring)
  const perMillion = perMillionOf(averaged)
  const indexWrites = averaged.flatMap(({units: {byIndex}}) => (byIndex ? [byIndex] : []))
  return {
    stack: table.name,
    region: stack.region,
    days: days.map(day => dayCost(day, found, counted)),
    /** Complete days with figures, or today if there are none. */
    averaged: averaged.map(({day}) => day.date),
    decisionsPerDay: meanDecisions(averaged),
    parts: [
      ...traffic.map(part => ({...part, perMillion: perMillion?.get(part.name) ?? null})),
      ...fixed.map(part => ({...part, perMillion: null})),
    ],
    dollarsPerDay: averaged.length === 0 ? null : sum([...traffic, ...fixed].map(({dollars}) => dollars)),
    dollarsPerMillion: perMillion === null ? null : sum([...perMillion.values()]),
    indexWrites: indexWrites.length === 0 ? null : meanByName(indexWrites, averaged.length),
    notes: notesOn({facts, stack, counted, averaged: averaged.map(({day}) => day), runsAggregator}),
    read: {units: meter.read, metrics: stack.metrics},
  }
}

type FoundDay = ReturnType<typeof foundDay>[number]

function foundDay(day: Day, {counted, stack, facts}: Pick<NoteSources, 'counted' | 'stack' | 'facts'>) {
  const counts = counted.days.get(day.date)
  const measured = stack.days.get(day.date)
  const settings = {...stack.settings, copiesToIndex: facts.copiesToIndex, provisioned: facts.provisioned}
  const units = measured
    ? measuredDay(measured, counts, settings)
    : counts && estimateDay(counts, (day.endMs - day.startMs) / 1000, settings)
  if (!units) return []
  return [{day, counts, units, parts: trafficParts(units, settings)}]
}

export type DayCost = ReturnType<typeof dayCost>

function dayCost(day: Day, found: readonly FoundDay[], {unread}: CountedDays) {
  const known = found.find(each => each.day === day)
  return {
    ...day,
    counts: known?.counts ?? null,
    /** Of its traffic. `null`: no figures. */
    dollars: known ? sum(known.parts.map(({dollars}) => dollars)) : null,
    isMeasured: known?.units.isMeasured ?? false,
    isUnread: unread.includes(day.date),
  }
}

const decisionsOf = ({admitted, refused}: DayCounts): number => admitted + refused

function meanDecisions(days: readonly FoundDay[]): number | null {
  const known = days.flatMap(({counts}) => counts ?? [])
  return known.length === 0 ? null : sum(known.map(decisionsOf)) / known.length
}

/** `null`: no decisions. Skips days whose decisions are unknown. */
function perMillionOf(days: readonly FoundDay[]): Map<CostPart['name'], number> | null {
  const known = days.flatMap(({counts, parts}) => (counts ? [{parts, decisions: decisionsOf(counts)}] : []))
  const millions = sum(known.map(({decisions}) => decisions)) / 1_000_000
  if (millions === 0) return null
  const average = averageParts(known.map(({parts}) => parts))
  return new Map(average.map(({name, dollars}) => [name, (dollars * known.length) / millions]))
}

function meanByName(all: readonly Readonly<Record<string, number>>[], count: number): Record<string, number> {
  const names = [...new Set(all.flatMap(each => Object.keys(each)))].sort()
  return Object.fromEntries(names.map(name => [name, sum(all.map(each => each[name] ?? 0)) / count]))
}

export interface CostNote {
  readonly message: string
  readonly fix: string | null
}

export interface NoteSources {
  readonly facts: PricedTable
  readonly stack: MeasuredStack
  readonly counted: CountedDays
  readonly averaged: readonly Day[]
  readonly runsAggregator: boolean | undefined
}

export function notesOn(sources: NoteSources): CostNote[] {
  const {stack} = sources
  return [
    ...stack.unread.map(unreadNote),
    ...countNotes(sources),
    ...basisNotes(sources),
    ...priceNotes(sources),
    ...tableNotes(sources.facts),
  ]
}

const note = (message: string, fix: string | null = null): CostNote => ({message, fix})

const SOURCES: Readonly<Record<UnreadSource['source'], string>> = {
  stack: 'The stack could not be read; template defaults are assumed',
  metrics: 'CloudWatch could not be read; units and runs are estimated',
  alarms: 'The alarms could not be read; the alarms of the template are assumed',
}

function unreadNote({source, error: {message, hint}}: UnreadSource): CostNote {
  return note(`${SOURCES[source]}: ${message}`, hint ?? null)
}

function countNotes({facts, stack, counted, runsAggregator}: NoteSources): CostNote[] {
  const {days, unread, hasAllResources} = counted
  const notes: CostNote[] = []
  if (days.size === 0 && unread.length === 0) {
    const unknown = 'No usage is recorded in these days, so the number of decisions is unknown'
    if (runsAggregator === false)
      notes.push(note(`${unknown}: the local stack runs with --no-aggregator. Restart it without this flag.`))
    else if (!facts.hasStream || !stack.settings.hasAggregator)
      notes.push(note(`${unknown}: the stack has no aggregator.`, 'zael deploy --aggregator'))
    else if (runsAggregator) notes.push(note(`${unknown}: there was no traffic.`))
    else notes.push(note(`${unknown}: there was no traffic, or the aggregator does not run.`, 'zael status'))
  }
  if (unread.length > 0) notes.push(note(`Too much usage to read. Not counted: ${formatList(unread)}.`))
  if (!hasAllResources) notes.push(note('Not all buckets were read. Usage of resources without limits may be missing.'))
  return notes
}

function basisNotes({stack, averaged}: NoteSources): CostNote[] {
  const isEstimated = averaged.some(({date}) => !stack.days.has(date))
  const notes: CostNote[] = []
  if (stack.region === null)
    notes.push(note('A local engine costs nothing. These are AWS prices for a stack with default options.'))
  else if (isEstimated && stack.unread.every(({source}) => source !== 'metrics'))
    notes.push(note('CloudWatch has no figures for some days. These days are estimated.'))
  if (isEstimated)
    notes.push(
      note(
        'Estimates count one write per decision, usage record and batch. They omit adjustments, refills, new buckets, monthly usage, further writes of refused requests and reads of services.',
      ),
    )
  if (averaged.length > 0 && averaged.every(({isComplete}) => !isComplete))
    notes.push(note('No completed day has figures. These figures cover today so far.'))
  return notes
}

function priceNotes({stack: {region}}: NoteSources): CostNote[] {
  if (region === null || region === LIST_REGION) return []
  return [note(`Prices are for ${LIST_REGION}; the stack is in ${region}.`)]
}

function tableNotes({provisioned, isInfrequentAccess, replicas}: PricedTable): CostNote[] {
  return [
    ...(provisioned ? [note('Capacity is provisioned: AWS bills it by the hour, used or not.')] : []),
    ...(isInfrequentAccess ? [note('Prices are for the table class Standard; the table has Standard-IA.')] : []),
    ...(replicas.length > 0
      ? [note(`The replicas in ${formatList(replicas)} are billed separately; use --region.`)]
      : []),
  ]
}

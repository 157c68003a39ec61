import {formatList} from '../../core/text/text.js'
import type {CountedDays, Day} from './daily-counts.js'
import type {MeasuredStack, UnreadSource} from './measured.js'
import {LIST_REGION} from './parts.js'
import type {PricedTable} from './priced-table.js'

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
  stack: 'The stack could not be read; the defaults of the template are assumed',
  metrics: 'CloudWatch could not be read; units and runs are estimated',
  alarms: 'The alarms could not be read; those of the template are assumed',
}

function unreadNote({source, error: {message, hint}}: UnreadSource): CostNote {
  return note(`${SOURCES[source]}: ${message}`, hint ?? null)
}

function countNotes({facts, stack, counted, runsAggregator}: NoteSources): CostNote[] {
  const {days, unread, hasAllResources} = counted
  const notes: CostNote[] = []
  if (days.size === 0 && unread.length === 0) {
    const unknown = 'No usage is recorded in these days, so nothing tells how many requests were decided'
    if (runsAggregator === false)
      notes.push(note(`${unknown}: the local stack was started with --no-aggregator; start it without.`))
    else if (!facts.hasStream || !stack.settings.hasAggregator)
      notes.push(note(`${unknown}: the stack has no aggregator, which counts them.`, 'zael deploy --aggregator'))
    else if (runsAggregator) notes.push(note(`${unknown}: there was no traffic.`))
    else notes.push(note(`${unknown}: there was no traffic, or the aggregator does not run.`, 'zael status'))
  }
  if (unread.length > 0)
    notes.push(note(`There is too much usage to read all of it; not counted: ${formatList(unread)}.`))
  if (!hasAllResources)
    notes.push(note('There are more buckets than were looked at: usage of resources without limits may be missing.'))
  return notes
}

function basisNotes({stack, averaged}: NoteSources): CostNote[] {
  const isEstimated = averaged.some(({date}) => !stack.days.has(date))
  const notes: CostNote[] = []
  if (stack.region === null)
    notes.push(
      note('A local engine costs nothing: this is what AWS would charge, with the default options of a stack.'),
    )
  else if (isEstimated && stack.unread.every(({source}) => source !== 'metrics'))
    notes.push(note('CloudWatch has no figures of some days; these are estimated.'))
  if (isEstimated)
    notes.push(
      note(
        'Estimates count one write for each decision and for each usage record and batch; adjustments, refills, new buckets, usage by month, further writes of refused requests and reads of services are not in them.',
      ),
    )
  if (averaged.length > 0 && averaged.every(({isComplete}) => !isComplete))
    notes.push(note('No day that is over has figures: this is today so far, not a whole day.'))
  return notes
}

function priceNotes({stack: {region}}: NoteSources): CostNote[] {
  if (region === null || region === LIST_REGION) return []
  return [note(`The stack is in ${region}, the prices are those of ${LIST_REGION}.`)]
}

function tableNotes({provisioned, isInfrequentAccess, replicas}: PricedTable): CostNote[] {
  return [
    ...(provisioned ? [note('The capacity is provisioned: units are paid for by the hour, whether used or not.')] : []),
    ...(isInfrequentAccess ? [note('The table class is Standard-IA, the prices are those of Standard.')] : []),
    ...(replicas.length > 0
      ? [note(`The copies in ${formatList(replicas)} have bills of their own; use --region.`)]
      : []),
  ]
}

import {formatMinute, formatPlural, formatSome} from '../../core/text/text.js'
import type {EntityDeletion, ParentMove} from '../../insight/usage/moves.js'
import type {ExportedUsage} from '../../insight/usage/usage-export.js'
import type {TimeRange} from '../flags/time-range.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {NOTHING_RECORDED} from './presenter.js'
import type {UsageExportResult} from './results.js'

type ExportRow = UsageExportResult['rows'][number]

/** Files depend on names and order: add new columns at the end. */
const COLUMNS: readonly ListingColumn<ExportRow>[] = [
  {name: 'namespace', value: ({namespace}) => namespace},
  {name: 'entity', value: ({entity}) => entity},
  {name: 'parent', value: ({parent}) => parent},
  {name: 'resource', value: ({resource}) => resource},
  {name: 'window', value: ({window}) => window},
  {name: 'start', value: ({start}) => start},
  {name: 'open', value: ({open}) => open},
  {name: 'requests', value: ({requests}) => requests},
  {name: 'requests-refused', value: ({requestsRefused}) => requestsRefused},
  {name: 'requests-refused-by-parent', value: ({requestsRefusedByParent}) => requestsRefusedByParent},
  {name: 'limit', value: ({limit}) => limit},
  {name: 'unit', value: ({unit}) => unit},
  {name: 'consumed', value: ({consumed}) => consumed},
  {name: 'amount', value: ({amount}) => amount},
  {name: 'overdrawn', value: ({overdrawn}) => overdrawn},
  {name: 'refused', value: ({refused}) => refused},
  {name: 'refused-tokens', value: ({refusedTokens}) => refusedTokens},
  {name: 'refused-amount', value: ({refusedAmount}) => refusedAmount},
  {name: 'requests-blocked', value: ({requestsBlocked}) => requestsBlocked},
  {name: 'requests-refused-by-provider', value: ({requestsRefusedByProvider}) => requestsRefusedByProvider},
  {name: 'kind', value: ({kind}) => kind},
]

export const exportListing = (rows: readonly ExportRow[]): Listing<ExportRow> => ({
  rows,
  columns: COLUMNS,
  empty: NOTHING_RECORDED,
})

/** Adds the namespace, and calls `onEnd` once the last row was read. */
export async function* exportRows(
  usage: AsyncIterable<ExportedUsage>,
  namespace: string,
  onEnd: (counts: {rows: number; open: number}) => void,
): AsyncGenerator<ExportRow, void> {
  let [rows, open] = [0, 0]
  for await (const row of usage) {
    rows++
    if (row.open) open++
    yield {namespace, ...row}
  }
  onEnd({rows, open})
}

export const openText = (open: number): string =>
  `${formatPlural(open, 'row belongs', 'rows belong')} to windows that are still open. Their figures can change.`

const MOST_MOVES = 5

/** `undefined`: no entity has another parent than at the start. */
export function movedText(moves: readonly ParentMove[]): string | undefined {
  if (moves.length === 0) return undefined
  const each = moves.map(
    ({entity, atMs, from = 'none', to = 'none'}) => `${entity} from ${from} to ${to} (${formatMinute(atMs)})`,
  )
  return (
    `Entities that changed their parent since the first row: ${formatSome(each, MOST_MOVES)}. The column "parent" is ` +
    'the current parent; their use before the move was charged to the former one.'
  )
}

/** `undefined`: no entity was deleted. */
export function deletedText(deletions: readonly EntityDeletion[]): string | undefined {
  if (deletions.length === 0) return undefined
  const each = deletions.map(({entity, atMs}) => `${entity} (${formatMinute(atMs)})`)
  return (
    `Entities deleted since the first row: ${formatSome(each, MOST_MOVES)}. Their usage before that is deleted and not ` +
    'in the rows; the charges of their parents are.'
  )
}

const iso = (ms: number): string => new Date(ms).toISOString()

export function exportScope({sinceMs, untilMs}: TimeRange): {since: string; until: string} {
  return {since: iso(sinceMs), until: iso(untilMs)}
}

/** `undefined`: exactly the time that was asked for, or up to now. */
export function coverageText(asked: TimeRange, whole: TimeRange, isUpToNow: boolean): string | undefined {
  if (whole.sinceMs === asked.sinceMs && (isUpToNow || whole.untilMs === asked.untilMs)) return undefined
  const {since, until} = exportScope(whole)
  return `Windows are exported whole: the rows cover ${since} to ${until}.`
}

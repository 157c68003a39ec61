import {formatList, formatPlural, formatSpan, formatTokens} from '../../core/text/text.js'
import type {UnitsByLimit} from '../../repository/limits/units.js'
import type {RunAmounts, RunState} from '../../repository/runs/run-state.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import type {Listing} from '../output/listing.js'
import {factLines} from '../output/text-table.js'
import type {RunEndResult, RunJson} from './results.js'

export interface RunDisplay {
  readonly units: UnitsByLimit
  readonly nowMs: number
}

/** "$1.25 usd · 300 tpm". */
function amountsText(amounts: RunAmounts, units: UnitsByLimit): string {
  return Object.entries(amounts)
    .map(([limit, tokens]) => `${formatTokens(tokens, units.get(limit))} ${limit}`)
    .join(' · ')
}

const isNothing = (amounts: RunAmounts): boolean => Object.values(amounts).every(tokens => tokens === 0)

function endText({endedAtMs, endsAtMs}: RunState, nowMs: number): string {
  if (endedAtMs !== undefined) return `ended ${formatSpan(Math.max(0, nowMs - endedAtMs))} ago`
  return endsAtMs > nowMs ? `in ${formatSpan(endsAtMs - nowMs)}` : 'due'
}

export function runListing(runs: readonly RunState[], {units, nowMs}: RunDisplay, isEnded: boolean): Listing<RunState> {
  return {
    rows: runs,
    columns: [
      {name: 'run', fit: 'key', value: ({id}) => id},
      {name: 'name', fit: 'text', value: ({name}) => name},
      {name: 'entity', fit: 'key', value: ({entity}) => entity},
      {name: 'resource', value: ({resource}) => resource},
      {name: 'granted', value: ({granted}) => amountsText(granted, units), raw: ({granted}) => JSON.stringify(granted)},
      {name: 'spent', value: ({spent}) => amountsText(spent, units), raw: ({spent}) => JSON.stringify(spent)},
      {
        name: 'ends',
        value: run => endText(run, nowMs),
        raw: ({endedAtMs, endsAtMs}) => isoSeconds(endedAtMs ?? endsAtMs),
      },
    ],
    empty: isEnded ? 'No run has ended in the last week.' : 'No open runs. Runs begin with limiter.delegate() in code.',
  }
}

export function runStateLines(run: RunState, {units, nowMs}: RunDisplay): string[] {
  const {id, name, entity, resource, granted, spent, left, returned, lapsed, ancestors, subRuns, endedAtMs} = run
  const isOpen = endedAtMs === undefined
  const text = (amounts: RunAmounts) => amountsText(amounts, units)
  const ancestorText = (back: {readonly returned: RunAmounts; readonly lapsed: RunAmounts}) =>
    `${text(back.returned)} returned${isNothing(back.lapsed) ? '' : `, ${text(back.lapsed)} lapsed`}`
  return factLines(name === undefined ? `Run ${id}` : `Run ${id}: ${name}`, {
    of: `${entity} for ${resource}`,
    granted: text(granted),
    spent: text(spent),
    left: isOpen ? text(left) : undefined,
    returned: isOpen ? undefined : text(returned),
    lapsed: isNothing(lapsed) ? undefined : text(lapsed),
    ...Object.fromEntries(ancestors.map(each => [each.entity, ancestorText(each)])),
    [isOpen ? 'ends' : 'state']: endText(run, nowMs),
    'sub-runs': subRuns.length > 0 ? formatList(subRuns) : undefined,
  })
}

export function runStateJson(run: RunState): RunJson {
  const {startedAtMs, endsAtMs, endedAtMs, name, ...rest} = run
  return {
    ...rest,
    name: name ?? null,
    startedAt: isoSeconds(startedAtMs),
    endsAt: isoSeconds(endsAtMs),
    endedAt: endedAtMs === undefined ? null : isoSeconds(endedAtMs),
  }
}

export const endQuestion = ({id, subRuns}: RunState): string =>
  `This ends the run ${id}${subRuns.length > 0 ? ` with ${formatPlural(subRuns.length, 'open sub-run')}` : ''}: further requests ` +
  'to it are refused, and what is left comes back'

export const endJson = (run: RunState, wasEnded: boolean): RunEndResult => ({...runStateJson(run), wasEnded})

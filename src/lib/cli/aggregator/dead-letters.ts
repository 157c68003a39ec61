import {firstItems, formatCount, formatPlural} from '../../core/text/text.js'
import type {DeadLetter} from '../../infra/dead-letters/queue.js'
import type {RedrivenLetter, RedriveState} from '../../infra/dead-letters/redrive.js'
import type {Listing} from '../output/listing.js'
import {type NextCommand, nextLines} from '../output/text-table.js'
import type {AggregatorRedriveResult, DeadLetterJson, RedrivenLetterJson} from './results.js'

const IN_STREAM_MS = 24 * 3_600_000

export const NO_LOCAL_LETTERS = 'A local stack has no dead letters: its aggregator retries a batch until it succeeds.'

const SHOWN = 10

export function letterJson(letter: DeadLetter): DeadLetterJson {
  const {id, range, records, firstAt, lastAt, reason, attempts, givenUpAt} = letter
  return {
    id,
    streamArn: range?.streamArn ?? null,
    shard: range?.shardId ?? null,
    firstSequence: range?.first ?? null,
    lastSequence: range?.last ?? null,
    records: records ?? null,
    firstAt: firstAt ?? null,
    lastAt: lastAt ?? null,
    reason: reason ?? null,
    attempts: attempts ?? null,
    givenUpAt: givenUpAt ?? null,
    inStreamUntil: firstAt === undefined ? null : new Date(Date.parse(firstAt) + IN_STREAM_MS).toISOString(),
  }
}

export function letterListing(letters: readonly DeadLetter[], queue: string): Listing<DeadLetterJson> {
  return {
    rows: letters.map(letterJson),
    columns: [
      {name: 'written', fit: 'whole', value: ({firstAt}) => seconds(firstAt), raw: ({firstAt}) => firstAt},
      {name: 'last', value: ({lastAt}) => seconds(lastAt), raw: ({lastAt}) => lastAt, isExtra: true},
      {name: 'records', align: 'right', value: ({records}) => records},
      {name: 'reason', value: ({reason, shard}) => (shard === null ? 'not a Lambda message' : reason)},
      {
        name: 'until',
        header: 'IN STREAM UNTIL',
        fit: 'whole',
        value: ({inStreamUntil}) => seconds(inStreamUntil),
        raw: ({inStreamUntil}) => inStreamUntil,
      },
      {name: 'attempts', align: 'right', value: ({attempts}) => attempts, isExtra: true},
      {name: 'given-up', value: ({givenUpAt}) => seconds(givenUpAt), raw: ({givenUpAt}) => givenUpAt, isExtra: true},
      {name: 'shard', fit: 'spare', value: ({shard}) => shard},
      {name: 'first', fit: 'spare', value: ({firstSequence}) => firstSequence},
      {name: 'end', fit: 'spare', value: ({lastSequence}) => lastSequence},
      {name: 'id', value: ({id}) => id, isExtra: true},
    ],
    empty: `No dead letters in ${queue}`,
  }
}

const seconds = (instant: string | null): string | null => instant && `${instant.slice(0, 19)}Z`

export function redriveJson(
  stack: string,
  queue: string | null,
  letters: readonly RedrivenLetter[],
): AggregatorRedriveResult {
  return {
    stack,
    queue,
    letters: letters.map(redrivenJson),
    complete: letters.every(({state}) => state === 'counted'),
  }
}

function redrivenJson(redriven: RedrivenLetter): RedrivenLetterJson {
  const {letter, state, records, counted, undecided, lostWindows, putBack, uncounted, error, isDeleted} = redriven
  const lost = lostWindows.map(window => ({namespace: null, entity: null, resource: null, ...window}))
  return {
    ...letterJson(letter),
    state,
    readAgain: records,
    updated: counted,
    windows: [
      ...undecided.map(({namespace, entity, resource, window, start}) => {
        return {namespace, entity, resource, window, start}
      }),
      ...lost,
    ],
    putBack,
    uncounted,
    error: error?.message ?? null,
    deleted: isDeleted,
  }
}

const STATES: readonly (readonly [RedriveState, string])[] = [
  ['counted', 'counted'],
  ['undecided', 'undecided: later changes of the same buckets were counted first'],
  ['lost', 'lost: the records left the stream after 24 hours'],
  ['unreadable', 'unreadable: not a Lambda message about a stream'],
  ['failed', 'failed: later messages were skipped to keep the order'],
]

export function redriveLines(stack: string, letters: readonly RedrivenLetter[]): string[] {
  const lines: string[] = []
  for (const [state, meaning] of STATES) {
    const those = letters.filter(letter => letter.state === state)
    if (those.length === 0) continue
    lines.push(`${formatPlural(those.length, 'message')} ${meaning}`)
    const sum = (of: 'records' | 'counted' | 'putBack' | 'uncounted') =>
      those.reduce((total, letter) => total + letter[of], 0)
    const [records, putBack, uncounted] = [sum('records'), sum('putBack'), sum('uncounted')]
    if (records > 0) {
      const completed = formatPlural(sum('counted'), 'usage record')
      lines.push(`  ${formatPlural(records, 'record')} read again, ${completed} updated`)
    }
    if (putBack > 0) lines.push(`  ${formatPlural(putBack, 'audit event')} restored; they are archived within hours`)
    if (uncounted > 0) lines.push(`  ${formatPlural(uncounted, 'record')} can never be counted`)
    lines.push(...windowLines(those))
    for (const {error} of those) if (error) lines.push(`  ${error.message}`)
  }
  const kept = letters.filter(({isDeleted}) => !isDeleted).length
  if (kept > 0) lines.push(`${formatPlural(kept, 'message')} kept in the queue until 14 days after the failure`)
  return [...lines, ...nextOf(stack, letters)]
}

function windowLines(letters: readonly RedrivenLetter[]): string[] {
  const undecided = letters.flatMap(each =>
    each.undecided.map(window => `${window.entity}, ${window.resource}, ${window.window} ${window.start}`),
  )
  const lost = letters.flatMap(each => each.lostWindows.map(({window, start}) => `${window} ${start}`))
  const names = [...new Set([...undecided, ...lost])]
  if (names.length === 0) return []
  const shown = firstItems(names, SHOWN, rest => `and ${formatCount(rest)} more; --json lists all`)
  const what = lost.length > 0 ? 'lack consumption' : 'may already include these changes'
  return [`  Usage windows that ${what}:`, ...shown.map(name => `    ${name}`)]
}

function nextOf(stack: string, letters: readonly RedrivenLetter[]): string[] {
  const next: NextCommand[] = []
  const doubtful = letters.filter(({state}) => state === 'lost' || state === 'undecided')
  if (doubtful.length > 0) {
    const since = doubtful.flatMap(({letter}) => letter.firstAt ?? []).sort()[0]
    const bound = since === undefined ? '' : ` --since ${since.slice(0, 19)}Z`
    next.push([`zael verify -s ${stack}${bound}`, 'find buckets whose consumption exceeds their usage'])
  }
  if (letters.some(({isDeleted, state}) => !isDeleted && state !== 'failed')) {
    next.push([`zael aggregator redrive -s ${stack} --discard`, 'delete the messages that cannot be counted'])
  }
  if (letters.some(({state}) => state === 'failed')) {
    next.push([`zael aggregator redrive -s ${stack}`, 'resume after fixing the cause'])
  }
  return nextLines(next)
}

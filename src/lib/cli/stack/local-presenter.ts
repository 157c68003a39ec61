import {formatCount, formatPlural, formatSpan} from '../../core/text/text.js'
import type {DownResult} from '../../local/down.js'
import type {StackStatus} from '../../local/find.js'
import type {LogEntry} from '../../local/state-dir/log.js'
import type {StackState, StateDir} from '../../local/state-dir/state.js'
import type {AggregatorStatus} from '../../local/supervisor/control.js'
import type {UpResult} from '../../local/up.js'
import {paint} from '../output/lines.js'
import {factLines, nextLines} from '../output/text-table.js'
import type {LocalUpResult} from './results.js'

type LocalStateJson = Omit<LocalUpResult, 'started' | 'mended'>

export interface TableFacts {
  readonly name: string
  readonly status: string
  readonly items: number
}

/** Only these fields: the state file also holds the supervisor's secret token. */
export function stateJson(state: StackState): LocalStateJson {
  const {stack, pid, engine, engineVersion, endpoint, port, dataDir, aggregator, startedAt, version} = state
  return {stack, pid, engine, engineVersion, endpoint, port, dataDir, aggregator, startedAt, version}
}

export function upLines({state, started, recovered}: UpResult): string[] {
  const title = started ? 'The local stack is running' : 'The local stack is already running'
  return factLines(recovered ? `${title}; the previous run did not stop cleanly` : title, {
    endpoint: state.endpoint,
    engine: `${state.engine} ${state.engineVersion}`,
    data: state.dataDir ?? 'in memory',
    table: state.stack,
    aggregator: state.aggregator ? 'on' : 'off: usage is not counted',
  })
}

export function upHints({dataDir}: Pick<StackState, 'dataDir'>): string[] {
  return nextLines([
    ['eval "$(zael local env)"', 'point zael, its library and AWS SDKs to this stack'],
    ['zael local status', 'show the state'],
    ['zael local down', dataDir ? 'stop the stack and keep the data' : 'stop the stack and lose the data in memory'],
  ])
}

export function downLines({stopped, purged}: DownResult, folder: string): string[] {
  return [
    stopped
      ? `Stopped the local stack at ${stopped.endpoint}`
      : `The local stack was not running (looked in ${folder})`,
    ...(purged ? [`Deleted ${purged}`] : stopped?.dataDir ? [`Kept the data in ${stopped.dataDir}`] : []),
  ]
}

export function localStatusLines(
  status: StackStatus,
  table: TableFacts | null,
  {folder, logFile}: Pick<StateDir, 'folder' | 'logFile'>,
): string[] {
  if (!status.running) {
    const {problem, lastEnd} = status
    return factLines(`The local stack is not running (looked in ${folder})`, {
      problem: problem ?? undefined,
      ended: lastEnd?.endedAt,
      log: problem === null ? undefined : logFile,
    })
  }
  const {state, live} = status
  const {aggregator} = live
  const restarts = live.engineRestarts === 0 ? '' : `, restarts: ${formatCount(live.engineRestarts)}`
  return factLines('The local stack is running', {
    endpoint: state.endpoint,
    engine: `${state.engine} ${state.engineVersion} (process ${live.enginePid}${restarts})`,
    uptime: formatSpan(live.uptimeMs),
    data: state.dataDir ?? 'in memory',
    table: table ? `${table.name}, ${table.status.toLowerCase()}, ${formatCount(table.items)} items` : undefined,
    stream: aggregator ? streamLine(aggregator) : undefined,
    aggregator: aggregator ? aggregatorLine(aggregator) : 'off: usage is not counted',
    problem: aggregator?.lastError ?? undefined,
    supervisor: `process ${state.pid}, zael ${state.version}`,
    log: logFile,
  })
}

function streamLine({streamLength, lagMs}: AggregatorStatus): string {
  const kept = streamLength === null ? 'records pending' : `${formatPlural(streamLength, 'record')} kept`
  return lagMs === 0 && streamLength === null ? 'not read yet' : `${kept}, lag ${formatSpan(lagMs)}`
}

function aggregatorLine(status: AggregatorStatus): string {
  const {records, batches, snapshots, refused, refills, splits, archived, errors} = status
  const figures = {records, batches, snapshots, 'refused requests': refused, refills, splits, archived, errors}
  return Object.entries(figures)
    .map(([name, count]) => `${name} ${formatCount(count)}`)
    .join(', ')
}

const LEVEL_COLOURS: Readonly<Record<string, string>> = {warn: 'yellow', error: 'red'}

export function logLine({time, level, message, fields}: LogEntry): string {
  if (time === null || level === null) return message
  const rest = Object.entries(fields).filter(([, value]) => value !== null && value !== '' && value !== 0)
  const words = rest.map(([name, value]) =>
    paint('dim', `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`),
  )
  const colour = LEVEL_COLOURS[level]
  return [paint('dim', time), colour ? paint(colour, level.padEnd(5)) : level.padEnd(5), message, ...words].join(' ')
}

import {spawn} from 'node:child_process'
import {createInterface} from 'node:readline'
import {setTimeout as sleep} from 'node:timers/promises'
import {type Reading, SORT_KEYS} from '../src/lib/live/model/model.js'
import {ranking} from '../src/lib/live/model/rank.js'
import {rowAt} from '../src/lib/live/model/status.js'
import {resourcesAt, totalsAt} from '../src/lib/live/model/totals.js'
import {nextReading} from '../src/lib/live/poll/reading.js'
import {percentile} from './measure.js'
import {numberOption, say, short, textTable} from './report.js'
import {bucketRecord, crowdedTable, footprint, ZAEL} from './watch-crowd.js'

/**
 * Measures watching 10,000 buckets: the arithmetic in this process; polls, memory and processor time of the built command line
 * in a separate process. See bench/README.md. `--minutes 10` for the long run, `--buckets 1000`, `--interval 500` (ms).
 */
const BUCKETS = numberOption('buckets', 10_000)
const MINUTES = numberOption('minutes', 1)
const INTERVAL_MS = numberOption('interval', 2000)
const ON_SCREEN = 50

/** The used part of the JSON document. */
interface Poll {
  readonly durationMs: number
  readonly readUnits: number
  readonly calls: number
  readonly bucketsRead: number
  readonly totals: {readonly buckets: number}
}

tellArithmetic()
say()
const crowd = await crowdedTable(BUCKETS)
try {
  say(`${crowd.engineName}, Node ${process.versions.node}, ${BUCKETS} buckets`)
  say()
  await watch(crowd.flags, crowd.request)
} finally {
  await crowd.close()
}

function tellArithmetic(): void {
  const readings = Array.from({length: BUCKETS}, (_, at): Reading => {
    const {entity, resource, ...rest} = bucketRecord('ns', at)
    const stored = {kind: 'bucket', record: {entity, resource, ...rest}, incomplete: new Map()} as const
    return nextReading(undefined, {entity, resource, shardCount: 1, shards: [stored]}, Date.now())
  })
  const time = (name: string, work: (nowMs: number) => unknown): string[] => {
    const durations = Array.from({length: 9}, (_, round) => {
      const startMs = performance.now()
      work(Date.now() + round)
      return performance.now() - startMs
    })
    return [name, short(durations[0] ?? Number.NaN), short(percentile(durations, 0.5))]
  }
  const selection = {reversed: false, filter: ''}
  say(
    textTable(
      ['arithmetic', 'first ms', 'p50 ms'],
      [
        ...SORT_KEYS.map(sort => time(`rank by ${sort}`, nowMs => ranking(readings, nowMs, {...selection, sort}))),
        time('rank, filtered', nowMs => ranking(readings, nowMs, {reversed: false, sort: 'left', filter: 'user-1'})),
        time('totals', nowMs => totalsAt(readings, nowMs)),
        time('resources', nowMs => resourcesAt(readings, nowMs)),
        time(`${ON_SCREEN} rows`, nowMs => readings.slice(0, ON_SCREEN).map(reading => rowAt(reading, nowMs))),
      ],
    ),
  )
}

/** Runs the command in a separate process, with a little traffic on the table. */
async function watch(where: readonly string[], request: (number: number) => Promise<unknown>): Promise<void> {
  const flags = [...where, '--json', '--interval', `${INTERVAL_MS}ms`, '--for', `${MINUTES * 60}s`]
  const child = spawn(process.execPath, [ZAEL, 'watch', ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()))
  const polls: Poll[] = []
  createInterface(child.stdout).on('line', line => polls.push(JSON.parse(line)))
  const startedMs = performance.now()
  const elapsed = () => performance.now() - startedMs
  const rows: string[][] = []
  try {
    for (let sent = 0; child.exitCode === null && elapsed() < MINUTES * 60_000; ) {
      await sleep(1000)
      for (const _ of Array(5)) await request(sent++)
      const isDue = elapsed() >= ((rows.length + 1) * MINUTES * 60_000) / 6 - 1500
      if (isDue && child.exitCode === null)
        rows.push([
          short(elapsed() / 1000),
          String(polls.length),
          String(polls.at(-1)?.totals.buckets ?? 0),
          ...footprint(child.pid as number),
        ])
    }
    await ended
  } finally {
    child.kill()
  }
  say(textTable(['elapsed s', 'polls', 'buckets', 'memory MB', 'processor %'], rows))
  say()
  const spread = (name: string, of: (poll: Poll) => number) => {
    const numbers = polls.map(of)
    return [name, short(percentile(numbers, 0.5)), short(percentile(numbers, 0.99)), short(Math.max(...numbers))]
  }
  say(
    textTable(
      ['one poll', 'p50', 'p99', 'most'],
      [
        spread('ms', ({durationMs}) => durationMs),
        spread('read units', ({readUnits}) => readUnits),
        spread('calls', ({calls}) => calls),
        spread('buckets read', ({bucketsRead}) => bucketsRead),
      ],
    ),
  )
}

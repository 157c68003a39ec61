import {spawn} from 'node:child_process'
import {readFileSync} from 'node:fs'
import {loadavg} from 'node:os'
import {setTimeout as sleep} from 'node:timers/promises'
import {stripVTControlCharacters} from 'node:util'
import {percentile} from './measure.js'
import {numberOption, option, say, short, textTable} from './report.js'
import {crowdedTable, processTimes, ZAEL} from './watch-crowd.js'

/**
 * Measures the live view of 10,000 buckets on a terminal of 120×40, provided by `script` (util-linux): time from a key to its
 * frame, memory, processor time with and without keys. See bench/README.md. `--minutes 10`, `--buckets 1000`, `--interval 2000`
 * (ms), `--keys 0` for a view without input, `--compare PATH` to also measure `bin/run.js` of another checkout.
 */
const BUCKETS = numberOption('buckets', 10_000)
const MINUTES = numberOption('minutes', 1)
const INTERVAL_MS = numberOption('interval', 1000)
const HAS_KEYS = numberOption('keys', 1) > 0
const KEY_TIMEOUT_MS = 20_000
/** Skips the start of the program and the first polls, which read only a few buckets. */
const WARM_UP_MS = 8000
const SAMPLES = 6
/** End of the last line. Only changes are drawn, and this text follows the name of the sort. */
const HINTS = 'enter drill in'

const crowd = await crowdedTable(BUCKETS)
try {
  say(`${crowd.engineName}, Node ${process.versions.node}, ${BUCKETS} buckets, every ${INTERVAL_MS} ms`)
  const other = option('compare')
  for (const program of [ZAEL, ...(other ? [other] : [])]) {
    say()
    say(`${program}, load ${short(loadavg()[0] ?? 0)}`)
    await measure(program)
  }
} finally {
  await crowd.close()
}

function openView(program: string) {
  const view = [process.execPath, program, 'watch', ...crowd.flags, '--interval', `${INTERVAL_MS}ms`].join(' ')
  const terminal = spawn('script', ['-qfec', `stty cols 120 rows 40; exec ${view}`, '/dev/null'], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {...process.env, TERM: 'xterm-256color'},
  })
  const ended = new Promise<void>(resolve => terminal.once('close', () => resolve()))
  let output = ''
  let bytes = 0
  let onOutput = (): void => {}
  terminal.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    output += chunk.toString()
    onOutput()
  })
  return {
    /** Time from a key until a text is drawn, in ms. */
    async press(key: string, text: string): Promise<number> {
      output = ''
      const timeout = AbortSignal.timeout(KEY_TIMEOUT_MS)
      const drawn = new Promise<number>((resolve, reject) => {
        timeout.addEventListener('abort', () => reject(new Error(`no "${text}" after ${key}`)))
        onOutput = () => stripVTControlCharacters(output).includes(text) && resolve(performance.now())
      })
      const pressedMs = performance.now()
      terminal.stdin.write(key)
      return (await drawn) - pressedMs
    },
    usage: () => ({...processTimes(viewPid(terminal.pid as number)), bytes, atMs: performance.now()}),
    async close(): Promise<void> {
      terminal.stdin.write('q')
      await ended
    },
    kill: () => terminal.kill(),
  }
}

async function measure(program: string): Promise<void> {
  const view = openView(program)
  const sorts: number[] = []
  const letters: number[] = []
  const rows: string[][] = []
  try {
    let requests = 0
    await sleep(WARM_UP_MS)
    const startMs = performance.now()
    let before = view.usage()
    while (rows.length < SAMPLES) {
      await sleep(1000)
      for (const _ of Array(5)) await crowd.request(requests++)
      const withKeys = HAS_KEYS && rows.length >= SAMPLES / 2
      if (withKeys) {
        sorts.push(await view.press('s', HINTS))
        await view.press('/', 'enter keep')
        letters.push(await view.press('9', '9_'))
        await view.press('\u001b', HINTS)
      }
      const elapsedMs = performance.now() - startMs
      if (elapsedMs < ((rows.length + 1) * MINUTES * 60_000) / SAMPLES) continue
      const after = view.usage()
      const ms = after.atMs - before.atMs
      rows.push([
        short(elapsedMs / 1000),
        withKeys ? 'four per round' : 'none',
        short(after.memoryMb),
        short(((after.processorMs - before.processorMs) / ms) * 100),
        short((after.bytes - before.bytes) / ms),
      ])
      before = after
    }
    await view.close()
  } finally {
    view.kill()
  }
  say(textTable(['elapsed s', 'keys', 'memory MB', 'processor %', 'output kB/s'], rows))
  if (!HAS_KEYS) return
  const spread = (name: string, times: readonly number[]) => [
    name,
    String(times.length),
    ...[0.5, 0.99].map(part => short(percentile(times, part))),
    short(Math.max(...times)),
  ]
  const keys = [spread('another sort', sorts), spread('letter of a filter', letters)]
  say(`\n${textTable(['key to frame', 'keys', 'p50 ms', 'p99 ms', 'most ms'], keys)}`)
}

/** The process that replaced the shell of `script`. */
function viewPid(terminalPid: number): number {
  return Number(readFileSync(`/proc/${terminalPid}/task/${terminalPid}/children`, 'utf8').trim())
}

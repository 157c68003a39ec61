import {spawn} from 'node:child_process'
import {readFileSync} from 'node:fs'
import {setTimeout as sleep} from 'node:timers/promises'
import {stripVTControlCharacters} from 'node:util'
import {percentile} from './measure.js'
import {numberOption, say, short, textTable} from './report.js'
import {crowdedTable, footprint, ZAEL} from './watch-crowd.js'

/**
 * The live view of 10,000 buckets on a terminal of 120×40: time from a key to the bytes of its frame, memory, processor
 * time. The terminal is that of `script` (util-linux). See bench/README.md. `--minutes 10`, `--buckets 1000` and
 * `--interval 2000` (ms) for other numbers; `--keys 0` for a view without input.
 */
const BUCKETS = numberOption('buckets', 10_000)
const MINUTES = numberOption('minutes', 1)
const INTERVAL_MS = numberOption('interval', 1000)
const HAS_KEYS = numberOption('keys', 1) > 0
const KEY_TIMEOUT_MS = 10_000
/** End of the last line: only changes are drawn, and this follows the name of the sort. */
const HINTS = 'enter drill in'

const crowd = await crowdedTable(BUCKETS)
try {
  say(`${crowd.engineName}, Node ${process.versions.node}, ${BUCKETS} buckets, every ${INTERVAL_MS} ms`)
  say()
  await show(crowd.flags, crowd.request)
} finally {
  await crowd.close()
}

async function show(where: readonly string[], request: (number: number) => Promise<unknown>): Promise<void> {
  const view = [process.execPath, ZAEL, 'watch', ...where, '--interval', `${INTERVAL_MS}ms`].join(' ')
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
  /** Ms until a text is drawn after a key. */
  const press = async (key: string, text: string): Promise<number> => {
    output = ''
    const timeout = AbortSignal.timeout(KEY_TIMEOUT_MS)
    const drawn = new Promise<number>((resolve, reject) => {
      timeout.addEventListener('abort', () => reject(new Error(`no "${text}" after ${key}`)))
      onOutput = () => stripVTControlCharacters(output).includes(text) && resolve(performance.now())
    })
    const pressedMs = performance.now()
    terminal.stdin.write(key)
    return (await drawn) - pressedMs
  }
  const sorts: number[] = []
  const letters: number[] = []
  const rows: string[][] = []
  const startedMs = performance.now()
  const elapsed = () => performance.now() - startedMs
  try {
    for (let round = 1; elapsed() < MINUTES * 60_000; round++) {
      await sleep(1000)
      for (const at of Array(5).keys()) await request(round * 5 + at)
      // The first polls have read only a few buckets.
      if (elapsed() < 5000) continue
      if (HAS_KEYS) {
        sorts.push(await press('s', HINTS))
        await press('/', 'enter keep')
        letters.push(await press('9', '9_'))
        await press('\u001b', HINTS)
      }
      const isDue = elapsed() >= ((rows.length + 1) * MINUTES * 60_000) / 6 - 1500
      if (isDue)
        rows.push([short(elapsed() / 1000), ...footprint(viewPid(terminal.pid as number)), short(bytes / elapsed())])
    }
    terminal.stdin.write('q')
    await ended
  } finally {
    terminal.kill()
  }
  say(textTable(['elapsed s', 'memory MB', 'processor %', 'output kB/s'], rows))
  if (!HAS_KEYS) return
  say()
  const spread = (name: string, times: readonly number[]) => {
    return [
      name,
      String(times.length),
      ...[0.5, 0.99].map(part => short(percentile(times, part))),
      short(Math.max(...times)),
    ]
  }
  say(
    textTable(
      ['key to frame', 'keys', 'p50 ms', 'p99 ms', 'most ms'],
      [spread('another sort', sorts), spread('letter of a filter', letters)],
    ),
  )
}

/** The process of the view: the shell of `script` has replaced itself by it. */
function viewPid(terminalPid: number): number {
  return Number(readFileSync(`/proc/${terminalPid}/task/${terminalPid}/children`, 'utf8').trim())
}

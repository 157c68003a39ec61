import {readFileSync} from 'node:fs'
import {availableParallelism} from 'node:os'

/** Aligns the first column left, the others right. */
export function textTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) => Math.max(title.length, ...rows.map(row => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd()
  return [line(header), line(widths.map(width => '-'.repeat(width))), ...rows.map(line)].join('\n')
}

/** About three significant digits. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return '-'
  const magnitude = Math.abs(value)
  if (magnitude >= 100) return Math.round(value).toLocaleString('en-US')
  return value.toFixed(magnitude >= 10 ? 1 : magnitude >= 1 ? 2 : 3)
}

export function say(text = ''): void {
  process.stdout.write(`${text}\n`)
}

/** Prints the first line of a report, and when the process ends, how quiet the machine was. */
export function machineLine(engineName: string): string {
  process.once('exit', () => say(quietLine(ticksAtStart, processorTicks())))
  const machine = `${engineName}, Node ${process.versions.node}, ${availableParallelism()} cores`
  return `${machine}; compare ratios, absolute figures vary`
}

interface ProcessorTicks {
  readonly total: number
  readonly idle: number
  /** Taken by the host of a virtual machine. */
  readonly stolen: number
}

/** Of all processors since the machine started; `undefined` if the system does not report it. */
function processorTicks(): ProcessorTicks | undefined {
  try {
    const [first = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
    const ticks = first.split(/ +/).slice(1, 9).map(Number)
    const [, , , idle = 0, waiting = 0, , , stolen = 0] = ticks
    return {total: ticks.reduce((sum, each) => sum + each, 0), idle: idle + waiting, stolen}
  } catch {
    return undefined
  }
}

const ticksAtStart = processorTicks()

function quietLine(before: ProcessorTicks | undefined, after: ProcessorTicks | undefined): string {
  if (!before || !after) return 'How much other work the machine had is not known here.'
  const share = (name: 'idle' | 'stolen') => short((100 * (after[name] - before[name])) / (after.total - before.total))
  return `Meanwhile ${share('stolen')} % of the processors was taken away by the host, and ${share('idle')} % was idle.`
}

/** The value of `--name VALUE` on the command line. */
export function option(name: string): string | undefined {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? undefined : process.argv[at + 1]
}

export function numberOption(name: string, fallback: number): number {
  return Number(option(name) ?? fallback)
}

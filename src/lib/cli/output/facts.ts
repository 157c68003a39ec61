import {colorize} from '@oclif/core/ux'
import {printable} from './text-table.js'

/** What is to be told about one thing: names and values, `undefined` for what does not apply. */
export type Facts = Readonly<Record<string, string | undefined>>

/** A title and the facts below it, their values in one column. */
export function factLines(title: string, facts: Facts): string[] {
  const rows = Object.entries(facts).filter((row): row is [string, string] => row[1] !== undefined)
  const width = Math.max(0, ...rows.map(([name]) => name.length))
  return [title, ...rows.map(([name, value]) => `  ${colorize('dim', name.padEnd(width))}  ${printable(value)}`)]
}

/** Commands to go on with, and what each is for. */
export function nextLines(commands: ReadonlyArray<readonly [command: string, purpose: string]>): string[] {
  const width = Math.max(0, ...commands.map(([command]) => command.length))
  return [
    '',
    'Next:',
    ...commands.map(([command, purpose]) => `  ${command.padEnd(width)}  ${colorize('dim', purpose)}`),
  ]
}

/** A time span for people: the two largest units that count. */
export function formatSpan(ms: number): string {
  const units = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1000],
  ] as const
  let rest = ms
  const parts = units.flatMap(([name, size]) => {
    const count = Math.floor(rest / size)
    rest -= count * size
    return count === 0 ? [] : [`${count} ${name}`]
  })
  return parts.length === 0 ? `${Math.round(ms)} ms` : parts.slice(0, 2).join(' ')
}

/** A whole number with separators for people. */
export function formatCount(count: number): string {
  return count.toLocaleString('en')
}

import {colorize} from '@oclif/core/ux'
import {printableText} from '../../core/printable.js'

/** Names and values about one thing; `undefined` for what does not apply. */
export type Facts = Readonly<Record<string, string | undefined>>

/** A title and the facts below it, with their values aligned. */
export function factLines(title: string, facts: Facts): string[] {
  const rows = Object.entries(facts).filter((row): row is [string, string] => row[1] !== undefined)
  const width = Math.max(0, ...rows.map(([name]) => name.length))
  return [title, ...rows.map(([name, value]) => `  ${colorize('dim', name.padEnd(width))}  ${printableText(value)}`)]
}

/** Suggested next commands, and what each is for. */
export function nextLines(commands: ReadonlyArray<readonly [command: string, purpose: string]>): string[] {
  const width = Math.max(0, ...commands.map(([command]) => command.length))
  return [
    '',
    'Next:',
    ...commands.map(([command, purpose]) => `  ${command.padEnd(width)}  ${colorize('dim', purpose)}`),
  ]
}

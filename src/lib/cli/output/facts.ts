import {printableText} from '../../core/text/printable.js'
import {formatCount} from '../../core/text/text.js'
import {padText, textWidth} from '../../core/text/text-width.js'
import {paint} from './paint.js'

/** Facts with the value `undefined` are omitted. */
export type Facts = Readonly<Record<string, string | undefined>>

export function factLines(title: string, facts: Facts): string[] {
  const rows = Object.entries(facts).filter((row): row is [string, string] => row[1] !== undefined)
  const names = rows.map(([name]) => printableText(name))
  const width = Math.max(0, ...names.map(textWidth))
  return [title, ...rows.map(([, value], at) => `  ${paint('dim', padText(names[at] ?? '', width))}  ${value}`)]
}

export function updatedText({updated, failed}: {readonly updated: number; readonly failed: number}): string {
  const missed = failed === 0 ? '' : `, ${formatCount(failed)} not reached; run the command again`
  return `${formatCount(updated)} updated${missed}`
}

export function nextLines(commands: ReadonlyArray<readonly [command: string, purpose: string]>): string[] {
  const width = Math.max(0, ...commands.map(([command]) => textWidth(printableText(command))))
  return [
    '',
    'Next:',
    ...commands.map(([command, purpose]) => `  ${padText(printableText(command), width)}  ${paint('dim', purpose)}`),
  ]
}

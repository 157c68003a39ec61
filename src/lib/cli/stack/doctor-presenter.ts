import {colorize} from '@oclif/core/ux'
import type {Check} from '../../infra/doctor/check.js'
import {printableText} from '../output/text-table.js'

const COLOURS: Readonly<Record<Check['state'], string>> = {ok: 'green', warn: 'yellow', fail: 'red'}

const TITLES: Readonly<Record<Check['group'], string>> = {machine: 'Machine', account: 'Access', stack: 'Stack'}

/** Every check on a line of its own, with the fix below; the verdict is the last line. */
export function checkLines(checks: readonly Check[]): string[] {
  const width = Math.max(0, ...checks.map(({name}) => name.length))
  const groups = (['machine', 'account', 'stack'] as const).flatMap(group => {
    const own = checks.filter(check => check.group === group)
    return own.length === 0 ? [] : [TITLES[group], ...own.flatMap(check => linesOf(check, width)), '']
  })
  return [...groups, verdict(checks)]
}

function linesOf({state, name, message, fix}: Check, width: number): string[] {
  const line = `  ${colorize(COLOURS[state], state.padEnd(4))}  ${name.padEnd(width)}  ${printableText(message)}`
  return fix === null
    ? [line]
    : [line, `  ${' '.repeat(4 + 2 + width)}  ${colorize('dim', 'Try:')} ${printableText(fix)}`]
}

function verdict(checks: readonly Check[]): string {
  const count = (state: Check['state']) => checks.filter(check => check.state === state).length
  return `${count('ok')} ok, ${count('warn')} warn, ${count('fail')} fail`
}

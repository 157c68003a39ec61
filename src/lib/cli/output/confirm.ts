import {createInterface} from 'node:readline/promises'
import {ExitError} from '@oclif/core/errors'
import {boolean} from '@oclif/core/flags'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {shownText} from '../../core/text/printable.js'
import {onAbort} from '../../dynamo/abort.js'
import {Aborted} from '../../dynamo/errors.js'
import {EXIT} from './exit.js'
import {fittedLines, safeLine} from './lines.js'

export const yesFlag = {yes: boolean({char: 'y', description: 'Skip confirmation.'})}

export interface Terminal {
  readonly stdin: NodeJS.ReadableStream & {readonly isTTY?: boolean}
  readonly stderr: NodeJS.WritableStream & {readonly isTTY?: boolean; readonly columns?: number}
}

interface Consent {
  readonly yes: boolean
  readonly signal?: AbortSignal | undefined
  readonly instead?: string | undefined
  readonly unchanged?: string | undefined
}

/** `signal` cancels the question; `instead` suggests another command; `unchanged` is the message after a no. */
export async function confirm(
  what: string,
  {yes, signal, instead, unchanged}: Consent,
  terminal: Terminal = process,
): Promise<void> {
  if (yes) return
  if (!canAsk(terminal)) {
    const hint = 'Add --yes: zael cannot ask without a terminal.'
    throw new InvalidInput('confirm.needed', `${what}. This needs confirmation.`, {
      hint: instead === undefined ? hint : `${hint} ${instead}`,
    })
  }
  if (instead !== undefined) {
    const lines = [`${what}.`, instead].flatMap(line => fittedLines(shownText(line), terminal.stderr))
    terminal.stderr.write(`${lines.join('\n')}\n`)
  }
  const answer = await ask(`${instead === undefined ? `${what}. ` : ''}Continue? [y/N] `, terminal, signal)
  if (!isYes(answer)) throw declined(unchanged)
}

/** False without a terminal to ask on. */
export async function agree(question: string, terminal: Terminal = process): Promise<boolean> {
  return canAsk(terminal) && isYes(await ask(`${question} [y/N] `, terminal))
}

const isYes = (answer: string): boolean => /^y(es)?$/i.test(answer.trim())

export async function confirmByName(
  what: string,
  name: string,
  {confirm: given, signal}: {confirm: string | undefined; signal?: AbortSignal | undefined},
  terminal: Terminal = process,
): Promise<void> {
  if (given === name) return
  if (given !== undefined) {
    throw new InvalidInput('confirm.name', `--confirm is "${given}", but the name is "${name}"`, {
      hint: `Nothing was changed. To confirm: --confirm ${name}`,
      details: {given, name},
    })
  }
  if (!canAsk(terminal)) {
    throw new InvalidInput('confirm.needed', `${what}. This must be confirmed by name.`, {
      hint: `Add --confirm ${name}: zael cannot ask without a terminal.`,
    })
  }
  const answer = await ask(`${what}. Type "${name}" to continue: `, terminal, signal)
  if (answer.trim() !== name) throw declined()
}

function canAsk({stdin, stderr}: Terminal): boolean {
  return stdin.isTTY === true && stderr.isTTY === true
}

/** Empty when the input ends. Ctrl-C ends the command. */
async function ask(question: string, {stdin, stderr}: Terminal, signal?: AbortSignal): Promise<string> {
  const asking = createInterface({input: stdin, output: stderr})
  let isInterrupted = false
  const ended = new Promise<undefined>(resolve => asking.once('close', () => resolve(undefined)))
  asking.once('SIGINT', () => {
    isInterrupted = true
    // Readline consumed the key, so emit the signal: its listener reports what was changed so far.
    if (signal) process.emit('SIGINT')
    asking.close()
  })
  const unsubscribe = signal && onAbort(signal, () => asking.close())
  const shown = fittedLines(question, stderr).map(safeLine).join('\n').trimEnd()
  const answer = await Promise.race([asking.question(`${shown} `), ended])
  unsubscribe?.()
  asking.close()
  // Enter was not pressed: end the line.
  if (answer === undefined) stderr.write('\n')
  if (signal?.aborted === true) throw new Aborted('The question', false, signal.reason)
  if (isInterrupted) throw new ExitError(EXIT.interrupted)
  return answer ?? ''
}

function declined(unchanged = 'nothing was changed'): ZaelError {
  return new ZaelError('failed', 'confirm.declined', unchanged)
}

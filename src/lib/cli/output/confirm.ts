import {createInterface} from 'node:readline/promises'
import {ExitError} from '@oclif/core/errors'
import {EXIT, InvalidInput, ZaelError} from '../../core/errors.js'
import {printableText} from '../../core/printable.js'

/** Where questions are asked and answered. */
export interface Terminal {
  readonly stdin: NodeJS.ReadableStream & {readonly isTTY?: boolean}
  readonly stderr: NodeJS.WritableStream & {readonly isTTY?: boolean}
}

/** Continues only with consent: `--yes`, or a "y" typed on a terminal. */
export async function confirm(what: string, {yes}: {yes: boolean}, terminal: Terminal = process): Promise<void> {
  if (yes) return
  if (!canAsk(terminal)) {
    throw new InvalidInput('confirm.needed', `${what}. This needs confirmation.`, {
      hint: 'Add --yes: there is no terminal to ask on.',
    })
  }
  const answer = await ask(`${what}. Continue? [y/N] `, terminal)
  if (!isYes(answer)) throw declined()
}

/** Whether a "y" is typed; false where there is no terminal to ask on. */
export async function agree(question: string, terminal: Terminal = process): Promise<boolean> {
  return canAsk(terminal) && isYes(await ask(`${question} [y/N] `, terminal))
}

const isYes = (answer: string): boolean => /^y(es)?$/i.test(answer.trim())

/** Continues only when the name is repeated: by `--confirm NAME`, or typed on a terminal. */
export async function confirmByName(
  what: string,
  name: string,
  {confirm: given}: {confirm: string | undefined},
  terminal: Terminal = process,
): Promise<void> {
  if (given === name) return
  if (given !== undefined) {
    throw new InvalidInput('confirm.name', `--confirm is "${given}", but the name is "${name}"`, {
      hint: `Nothing was changed. To confirm, add --confirm ${name}`,
      details: {given, name},
    })
  }
  if (!canAsk(terminal)) {
    throw new InvalidInput('confirm.needed', `${what}. This must be confirmed by name.`, {
      hint: `Add --confirm ${name}: there is no terminal to ask on.`,
    })
  }
  const answer = await ask(`${what}. Type "${name}" to continue: `, terminal)
  if (answer.trim() !== name) throw declined()
}

function canAsk({stdin, stderr}: Terminal): boolean {
  return stdin.isTTY === true && stderr.isTTY === true
}

/** The typed answer; empty when the input ends. Ctrl-C ends the command. */
async function ask(question: string, {stdin, stderr}: Terminal): Promise<string> {
  const asking = createInterface({input: stdin, output: stderr})
  let isInterrupted = false
  const ended = new Promise<undefined>(resolve => asking.once('close', () => resolve(undefined)))
  asking.once('SIGINT', () => {
    isInterrupted = true
    asking.close()
  })
  const answer = await Promise.race([asking.question(printableText(question)), ended])
  asking.close()
  // Enter was not pressed, so the line is not finished.
  if (answer === undefined) stderr.write('\n')
  if (isInterrupted) throw new ExitError(EXIT.interrupted)
  return answer ?? ''
}

function declined(): ZaelError {
  return new ZaelError('failed', 'confirm.declined', 'nothing was changed')
}

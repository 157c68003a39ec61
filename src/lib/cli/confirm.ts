import {createInterface} from 'node:readline/promises'
import {ExitError} from '@oclif/core/errors'
import {EXIT, InvalidInput, ZaelError} from '../errors.js'

/** Where questions are asked and answered. */
export interface Terminal {
  readonly stdin: NodeJS.ReadableStream & {readonly isTTY?: boolean}
  readonly stderr: NodeJS.WritableStream & {readonly isTTY?: boolean}
}

/** Goes on only with consent: `--yes`, or a "y" typed on a terminal. Without a terminal nobody is asked. */
export async function confirm(what: string, {yes}: {yes: boolean}, terminal: Terminal = process): Promise<void> {
  const {stdin, stderr} = terminal
  if (yes) return
  if (!stdin.isTTY || !stderr.isTTY) {
    throw new InvalidInput('confirm.needed', `${what}: this needs a yes`, {
      hint: 'Add --yes; without a terminal nobody can be asked.',
    })
  }
  const asking = createInterface({input: stdin, output: stderr})
  let isInterrupted = false
  const ended = new Promise<string>(resolve => asking.once('close', () => resolve('')))
  asking.once('SIGINT', () => {
    isInterrupted = true
    stderr.write('\n')
    asking.close()
  })
  const answer = await Promise.race([asking.question(`${what}. Continue? [y/N] `), ended])
  asking.close()
  if (isInterrupted) throw new ExitError(EXIT.interrupted)
  if (/^y(es)?$/i.test(answer.trim())) return
  throw new ZaelError('failed', 'confirm.declined', 'nothing was changed')
}

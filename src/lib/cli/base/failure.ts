import {inspect, stripVTControlCharacters} from 'node:util'
import {ExitError} from '@oclif/core/errors'
import {changedError, InvalidInput, ZaelError} from '../../core/errors.js'
import {printableLines} from '../../core/text/printable.js'
import {shellWord} from '../../core/text/text.js'
import {EXIT} from '../output/exit.js'
import {jsonText} from '../output/json-text.js'
import {fittedLines, paint, safeLine} from '../output/lines.js'
import type {ErrorResult} from '../output/results.js'
import {withCommandHint} from './hints.js'

export function asFailure(error: unknown): ZaelError {
  if (error instanceof ZaelError) return withCommandHint(error)
  const text = error instanceof Error ? error.message || error.name : String(error)
  const [firstLine] = text.split('\n')
  const message = `${firstLine} (this is a bug in zael; run again with ZAEL_DEBUG=1 for a stack trace)`
  return new ZaelError('failed', 'bug', message, {cause: error})
}

export function asUsageFailure(error: unknown, helpCommand: string): ZaelError {
  if (error instanceof ZaelError) {
    return changedError(error, {message: withoutParserNoise(error.message), hint: error.hint ?? helpCommand})
  }
  // Errors of oclif's parser and flag types are named "Error"; a TypeError in a parse function is a bug.
  if (!(error instanceof Error) || error.name !== 'Error') return asFailure(error)
  return new InvalidInput('command.usage', withoutParserNoise(error.message), {hint: helpCommand, cause: error})
}

/** The typed words, if the only surplus argument may be a resource without its flag. Otherwise `undefined`. */
export function withResourceFlag(error: unknown, argv: readonly string[]): string[] | undefined {
  const [extra, ...others] = error instanceof Error && 'args' in error ? (error.args as string[]) : []
  const isGiven = argv.some(word => /^(--resource\b|-r)/.test(word))
  if (typeof extra !== 'string' || others.length > 0 || isGiven) return undefined
  const at = argv.lastIndexOf(extra)
  return [...argv.slice(0, at), '--resource', ...argv.slice(at)].map(shellWord)
}

export function failureJson(failure: ZaelError): ErrorResult {
  const {code, message, hint = null, details} = failure
  // Scripts rely on this older spelling.
  const kind = failure.kind === 'negative' ? 'checkSaidNo' : failure.kind
  return {error: {code, kind, message, hint, details}}
}

export function fail(
  failure: ZaelError,
  output: {jsonBody: object | undefined; isOneLine?: boolean; debug: boolean},
): never {
  const exitCode = EXIT[failure.kind]
  process.exitCode = exitCode // before writing: a closed pipe ends the process
  if (output.jsonBody) console.log(jsonText(output.jsonBody, output.isOneLine ? undefined : 2))
  else console.error(failureText(failure))
  if (output.debug) console.error(printableLines(inspect(failure)))
  throw new ExitError(exitCode)
}

function failureText({message, hint}: ZaelError): string {
  const lines = [...indented(`${paint('red', 'Error:')} ${message}`)]
  if (hint !== undefined) lines.push(...indented(`${paint('bold', 'Hint:')} ${hint}`))
  return lines
    .flatMap(line => fittedLines(line, process.stderr))
    .map(safeLine)
    .join('\n')
}

/** Indents all lines but the first, so that a stored name with line breaks cannot pose as a message of zael. */
function indented(text: string): string[] {
  return text.split('\n').map((line, at) => (at === 0 || /^( {2}|$)/.test(line) ? line : `  ${line}`))
}

function withoutParserNoise(message: string): string {
  return stripVTControlCharacters(message)
    .replace(/\nSee more help with --help$/, '')
    .replace(/^Parsing (--\S+) \n\t/, '$1: ')
    .replace(/^The following errors? occurred:\n\s*/, '')
    .replace(/(--[\w-]+)=.* cannot also be provided when using (--\S+)/g, '$1 cannot be combined with $2')
    .replace(/All of the following must be provided when using (--\S+): /g, '$1 requires ')
    .replace(/^Missing required flag (?=\w)/gm, 'Missing required flag --')
}

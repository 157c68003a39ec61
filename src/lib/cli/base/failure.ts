import {inspect, stripVTControlCharacters} from 'node:util'
import {ExitError} from '@oclif/core/errors'
import {colorize} from '@oclif/core/ux'
import {InvalidInput, ZaelError} from '../../core/errors.js'

/** Any error as a member of the family; one that is not a member yet is a bug and says so. */
export function asFailure(error: unknown): ZaelError {
  if (error instanceof ZaelError) return error
  const text = error instanceof Error ? error.message || error.name : String(error)
  const [firstLine] = text.split('\n')
  const message = `${firstLine} (this is a bug, run again with ZAEL_DEBUG=1 to see where it happened)`
  return new ZaelError('failed', 'bug', message, {cause: error})
}

/** An error of oclif's parser, or of a flag's own parse function, as a usage error. */
export function asUsageFailure(error: unknown, helpCommand: string): ZaelError {
  if (error instanceof ZaelError) {
    const {kind, code, hint = helpCommand, details, cause} = error
    return new ZaelError(kind, code, withoutParserNoise(error.message), {hint, details, cause})
  }
  // Both oclif's errors and the plain ones of its flag types carry this name; a TypeError in a parse function does not.
  if (!(error instanceof Error) || error.name !== 'Error') return asFailure(error)
  return new InvalidInput('command.usage', withoutParserNoise(error.message), {hint: helpCommand, cause: error})
}

/** The body of an error in `--json` mode; every key is always there. */
export function failureJson(failure: ZaelError): {error: Record<string, unknown>} {
  const {code, kind, message, hint = null, details} = failure
  return {error: {code, kind, message, hint, details}}
}

/** Tells the program (a JSON body on stdout) or the person (stderr) what failed, then ends the run with the right code. */
export function fail(failure: ZaelError, output: {jsonBody: object | undefined; debug: boolean}): never {
  process.exitCode = failure.exitCode // before writing: a reader who closes the pipe ends the process
  if (output.jsonBody) console.log(JSON.stringify(output.jsonBody, null, 2))
  else console.error(failureText(failure))
  if (output.debug) console.error(inspect(failure))
  throw new ExitError(failure.exitCode)
}

function failureText({message, hint}: ZaelError): string {
  const lines = [`${colorize('red', 'Error:')} ${message}`]
  if (hint !== undefined) lines.push(`${colorize('bold', 'Try:')} ${hint}`)
  return lines.join('\n')
}

function withoutParserNoise(message: string): string {
  return stripVTControlCharacters(message)
    .replace(/\nSee more help with --help$/, '')
    .replace(/^Parsing (--\S+) \n\t/, '$1: ')
    .replace(/^The following errors? occurred:\n\s*/, '')
}

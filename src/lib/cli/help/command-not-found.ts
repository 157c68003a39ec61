import type {Config, Hook} from '@oclif/core/interfaces'
import {InvalidInput} from '../../core/errors.js'
import {nearestPhrases, type PhraseCandidate} from '../../core/nearest.js'
import {fail, failureJson} from '../base/failure.js'
import {pythonCommand} from './python-commands.js'
import {HELP_TOPICS} from './topics.js'

/** The error for words that name no command, with what was probably meant. */
export function unknownCommand(config: Config, words: readonly string[]): InvalidInput {
  const message = `unknown command "${words.join(' ')}"`
  const renamed = pythonCommand(words)
  if (renamed !== undefined) {
    const hint = `${config.bin} ${renamed}; docs/from-python.md has the names of all commands of zae-limiter`
    return new InvalidInput('command.unknown', message, {hint, details: {suggestions: [`${config.bin} ${renamed}`]}})
  }
  const commands = commandWords(config).map(path => ({words: path, type: `${config.bin} ${path.join(' ')}`}))
  const topics = HELP_TOPICS.map(({name}) => ({words: [name], type: `${config.bin} help ${name}`}))
  return withSuggestions(config, 'command.unknown', message, words, [...commands, ...topics])
}

/** The error for `zael help` with words that name neither a command nor a help topic. */
export function unknownHelpSubject(config: Config, words: readonly string[]): InvalidInput {
  const message = `there is no command and no help topic "${words.join(' ')}"`
  const paths = [...commandWords(config), ...HELP_TOPICS.map(({name}) => [name])]
  const candidates = paths.map(path => ({words: path, type: `${config.bin} help ${path.join(' ')}`}))
  return withSuggestions(config, 'help.unknown', message, words, candidates)
}

function withSuggestions(
  config: Config,
  code: string,
  message: string,
  words: readonly string[],
  candidates: readonly PhraseCandidate[],
): InvalidInput {
  const suggestions = nearestPhrases(words, candidates)
  if (suggestions.length > 0)
    return new InvalidInput(code, message, {hint: suggestions.join(', or '), details: {suggestions}})
  const commands = [...new Set(commandWords(config).map(([first]) => first))].sort()
  const hint = `${config.bin} --help; the commands are: ${commands.join(', ')}`
  return new InvalidInput(code, message, {hint, details: {commands}})
}

/** Commands and the topics above them, as the words a person types. */
function commandWords(config: Config): string[][] {
  const visible = config.commands.filter(command => !command.hidden).map(({id}) => id)
  return [...new Set([...visible, ...config.topics.filter(topic => !topic.hidden).map(({name}) => name)])].map(id =>
    id.split(/[: ]/),
  )
}

/** oclif hands a flag typed before any command to the same hook. */
function flagBeforeCommand(config: Config, flag: string, rest: readonly string[]): InvalidInput {
  const moved = takesValue(config, flag) ? [...rest.slice(1), flag, ...rest.slice(0, 1)] : [...rest, flag]
  const hint = rest.length === 0 ? `${config.bin} --help` : [config.bin, ...moved].join(' ')
  return new InvalidInput('command.missing', `flags come after a command, but "${flag}" comes first`, {hint})
}

/** By any command that knows the flag: those before a command are flags of all. */
function takesValue(config: Config, typed: string): boolean {
  const flags = config.commands.flatMap(({flags: known}) => Object.values(known))
  const found = flags.find(({name, char}) => typed === `--${name}` || (char !== undefined && typed === `-${char}`))
  return found?.type === 'option'
}

const commandNotFound: Hook.CommandNotFound = async ({config, id, argv = []}) => {
  const failure = id.startsWith('-') ? flagBeforeCommand(config, id, argv) : unknownCommand(config, id.split(':'))
  const jsonBody = [id, ...argv].includes('--json') ? failureJson(failure) : undefined
  fail(failure, {jsonBody, debug: config.scopedEnvVarTrue('DEBUG')})
}

export default commandNotFound

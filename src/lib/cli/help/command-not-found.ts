import type {Config, Hook} from '@oclif/core/interfaces'
import {InvalidInput} from '../../core/errors.js'
import {nearestPhrases, type PhraseCandidate} from '../../core/text/nearest.js'
import {shellWord} from '../../core/text/text.js'
import {fail, failureJson} from '../base/failure.js'
import {HELP_TOPICS} from './topics.js'

type Flag = Config['commands'][number]['flags'][string]

export const RENAMED: readonly (readonly [python: string, here: string])[] = [
  ['cfn-template', 'deploy --export DIR'],
  ['lambda-export', 'deploy --export DIR'],
  ['check', 'doctor'],
  ['upgrade', 'deploy'],
  ['resource set-defaults', 'limits set --resource NAME'],
  ['resource get-defaults', 'limits get --resource NAME'],
  ['resource delete-defaults', 'limits unset --all --resource NAME'],
  ['resource list', 'limits list'],
  ['system set-defaults', 'limits set --system'],
  ['system get-defaults', 'limits get --system'],
  ['system delete-defaults', 'limits unset --all --system'],
  ['entity set-limits', 'limits set --entity ID'],
  ['entity get-limits', 'limits get --entity ID'],
  ['entity delete-limits', 'limits unset --all --entity ID'],
  ['entity list-resources', 'limits list'],
  ['namespace register', 'namespace create'],
  ['usage list', 'usage show'],
  ['limits cfn-template', 'limits export'],
]

const SYNONYMS = new Map([
  ['block', 'disable'],
  ['unblock', 'enable'],
])

export function pythonCommand(words: readonly string[]): string | undefined {
  return RENAMED.find(([python]) => python.split(' ').every((word, at) => word === words[at]))?.[1]
}

/** `rest`: the words typed after the command. */
export function unknownCommand(config: Config, words: readonly string[], rest: readonly string[] = []): InvalidInput {
  const message = `Unknown command "${words.join(' ')}".`
  const renamed = pythonCommand(words)
  if (renamed !== undefined) {
    const hint = `${config.bin} ${renamed} (docs/from-python.md maps all zae-limiter commands)`
    return new InvalidInput('command.unknown', message, {hint, details: {suggestions: [`${config.bin} ${renamed}`]}})
  }
  const extra = unexpectedArgument(config, words, rest)
  if (extra) return extra
  const commands = commandWords(config).map(path => {
    const {args = {}} = config.commands.find(({id}) => id === path.join(':')) ?? {}
    const values = Object.keys(args).length === 0 ? [] : words.slice(path.length).map(shellWord)
    return {words: path, type: [config.bin, ...path, ...values].join(' ')}
  })
  const topics = HELP_TOPICS.map(({name}) => ({words: [name], type: `${config.bin} help ${name}`}))
  const meant = words.map(word => SYNONYMS.get(word) ?? word)
  return withSuggestions(config, 'command.unknown', message, meant, [...commands, ...topics])
}

/** oclif treats words after a command without arguments as part of its name. */
function unexpectedArgument(
  {bin, commands}: Config,
  words: readonly string[],
  rest: readonly string[],
): InvalidInput | undefined {
  const ids = words.map((_, at) => words.slice(0, at).join(':'))
  const command = commands.find(({id, hidden}) => !hidden && ids.includes(id))
  if (!command) return undefined
  const name = command.id.split(':')
  const values = words.slice(name.length)
  const [flag = command.flags.resource, another] = Object.values(command.flags).filter(({required}) => required)
  // A value for the only required flag, or a resource, typed without the flag's name.
  const isMeant = flag && !another && values.length === 1 && !isGiven(flag, rest)
  const given = isMeant ? [`--${flag.name}`, ...values.map(shellWord)] : ['--help']
  const message = `Unexpected argument${values.length > 1 ? 's' : ''}: ${values.join(', ')}`
  return new InvalidInput('command.usage', message, {hint: [bin, ...name, ...given].join(' ')})
}

const isGiven = ({name, char}: Flag, typed: readonly string[]): boolean =>
  typed.some(
    word =>
      word === `--${name}` || word.startsWith(`--${name}=`) || (char !== undefined && word.startsWith(`-${char}`)),
  )

/** oclif splits a word at its colon and then miscounts, so the typed words are matched against the id. */
export function typedWords(
  id: string,
  argv: readonly string[],
  typed: readonly string[],
): {readonly words: readonly string[]; readonly rest: readonly string[]} {
  const count = typed.findIndex((_, at) => typed.slice(0, at + 1).join(':') === id) + 1
  if (count === 0) return {words: id.split(':'), rest: argv}
  return {words: typed.slice(0, count), rest: typed.slice(count)}
}

export function unknownHelpSubject(config: Config, words: readonly string[]): InvalidInput {
  const message = `Unknown command or help topic "${words.join(' ')}".`
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
  const hint = `${config.bin} --help. Commands: ${commands.join(', ')}`
  return new InvalidInput(code, message, {hint, details: {commands}})
}

function commandWords(config: Config): string[][] {
  const visible = config.commands.filter(command => !command.hidden).map(({id}) => id)
  return [...new Set([...visible, ...config.topics.filter(topic => !topic.hidden).map(({name}) => name)])].map(id =>
    id.split(/[: ]/),
  )
}

/** oclif calls the same hook for a flag typed before the command. */
function flagBeforeCommand(config: Config, flag: string, rest: readonly string[]): InvalidInput {
  const moved = takesValue(config, flag) ? [...rest.slice(1), flag, ...rest.slice(0, 1)] : [...rest, flag]
  const hasCommand = moved[0]?.startsWith('-') === false
  const hint = hasCommand ? [config.bin, ...moved.map(shellWord)].join(' ') : `${config.bin} --help`
  return new InvalidInput('command.missing', `"${flag}" must come after the command.`, {hint})
}

function takesValue(config: Config, typed: string): boolean {
  const flags = config.commands.flatMap(({flags: known}) => Object.values(known))
  const found = flags.find(({name, char}) => typed === `--${name}` || (char !== undefined && typed === `-${char}`))
  return found?.type === 'option'
}

const commandNotFound: Hook.CommandNotFound = async ({config, id, argv = []}) => {
  const {words, rest} = typedWords(id, argv, process.argv.slice(2))
  const failure = id.startsWith('-') ? flagBeforeCommand(config, id, argv) : unknownCommand(config, words, rest)
  const jsonBody = [...words, ...rest].includes('--json') ? failureJson(failure) : undefined
  fail(failure, {jsonBody, debug: config.scopedEnvVarTrue('DEBUG')})
}

export default commandNotFound

import type {Config} from '@oclif/core/config'
import {shellWord} from '../../core/text/text.js'
import {SETTING_RULES, type SettingKey} from './setting-rules.js'
import {type Settings, typedSettings} from './settings.js'

/** Flag names by command id, such as `limits set`; `undefined` for an unknown command. */
export type FlagsOfCommand = (id: string) => ReadonlySet<string> | undefined

/** A command in a hint: between backticks, or up to the end of its sentence or line. */
const COMMAND = /`zael ([^`]+)`|\bzael ((?:'[^']*'|(?!\. [A-Z]|, (?:or|then) zael|; |\.$)[^`\n])+)/g

const AWS_COMMAND = /\baws (?=(?:cloudformation|dynamodb|lambda|logs|s3) [a-z])/g

const SHORT: Partial<Record<SettingKey, string>> = {stack: 's', namespace: 'n'}

export function flagsOfCommands(config: Pick<Config, 'findCommand'>): FlagsOfCommand {
  return id => {
    const command = config.findCommand(id.replaceAll(' ', ':'))
    return command && new Set(Object.keys(command.flags))
  }
}

/** Makes commands in a hint target the same stack: zael gets the typed flags, aws all that it cannot find itself. */
export function withTypedFlags(hint: string, settings: Settings, flagsOf: FlagsOfCommand): string {
  const place = awsFlags(settings)
  return withOwnFlags(hint, settings, flagsOf).replace(AWS_COMMAND, command => command + place)
}

/** Without them, a command could reach a table of the same name in another region or account. */
function awsFlags(settings: Settings): string {
  const keys = ['region', 'profile', 'endpointUrl'] as const
  return keys
    .map(key => {
      const {source, value = ''} = settings[key]
      return source === 'aws' || source === 'default' ? '' : `--${SETTING_RULES[key].flag} ${shellWord(value)} `
    })
    .join('')
}

function withOwnFlags(hint: string, settings: Settings, flagsOf: FlagsOfCommand): string {
  const typed = typedSettings(settings)
  if (typed.length === 0) return hint
  return hint.replace(COMMAND, (mention, quoted?: string, bare?: string) => {
    const command = quoted ?? bare ?? ''
    const flags = flagsIn(command, flagsOf)
    const words = command.split(' ')
    const added = typed.filter(
      ({key, flag}) => flags?.has(flag) && !words.includes(`--${flag}`) && !words.includes(`-${SHORT[key]}`),
    )
    return mention.replace(command, () => [command, ...added.flatMap(each => each.words)].join(' '))
  })
}

function flagsIn(command: string, flagsOf: FlagsOfCommand): ReadonlySet<string> | undefined {
  const words = command.split(' ')
  if (words.includes('--help')) return undefined
  return flagsOf(words.slice(0, 2).join(' ')) ?? flagsOf(words[0] ?? '')
}

import type {SettingKey} from './setting-rules.js'
import {type Settings, typedSettings} from './settings.js'

/** Flags that a command takes, by its id (`limits set`); `undefined` when there is no such command. */
export type FlagsOfCommand = (id: string) => ReadonlySet<string> | undefined

/** A command in a hint: between backticks, or up to the end of its sentence. */
const COMMAND = /`zael ([^`]+)`|\bzael ((?:'[^']*'|(?!\. [A-Z]|, or zael|; |\.$)[^`])+)/g

/** Short forms of these flags. */
const SHORT: Partial<Record<SettingKey, string>> = {stack: 's', namespace: 'n'}

/** Adds the typed flags that select a stack to the commands of a hint, so that they can be copied as they are. */
export function withTypedFlags(hint: string, settings: Settings, flagsOf: FlagsOfCommand): string {
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

/** The flags of the longest beginning that is a command; asking for help needs none of them. */
function flagsIn(command: string, flagsOf: FlagsOfCommand): ReadonlySet<string> | undefined {
  const words = command.split(' ')
  if (words.includes('--help')) return undefined
  return flagsOf(words.slice(0, 2).join(' ')) ?? flagsOf(words[0] ?? '')
}

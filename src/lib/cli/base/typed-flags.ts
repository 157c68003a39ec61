import {flagOf, SETTING_KEYS, type Settings} from './settings.js'

/** The flags that say where a command works, as they were typed: a command that is recommended must work there too. */
export function typedFlags(settings: Settings | undefined): string {
  const words = SETTING_KEYS.flatMap(key => {
    const setting = settings?.[key]
    return key !== 'output' && setting?.source === 'flag' ? [`--${flagOf(key)}`, quoted(setting.value ?? '')] : []
  })
  return words.map(word => ` ${word}`).join('')
}

/** As a shell reads it. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

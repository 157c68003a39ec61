import {boolean, string} from '@oclif/core/flags'
import type {BooleanFlag, OptionFlag} from '@oclif/core/interfaces'
import type {StackOption} from '../../infra/stack/option.js'
import {STACK_OPTIONS} from '../../infra/stack/options.js'

type Flag = BooleanFlag<boolean> | OptionFlag<string | undefined>

/** One flag per stack option. None has a default: an option that is not typed keeps its deployed value. */
export const optionFlags: Readonly<Record<string, Flag>> = Object.fromEntries(
  STACK_OPTIONS.map(option => [option.flag, flagFor(option)]),
)

export function typedOptions(flags: Readonly<Record<string, unknown>>): Record<string, string> {
  const typed = STACK_OPTIONS.filter(({flag}) => flags[flag] !== undefined)
  return Object.fromEntries(typed.map(option => [option.name, String(flags[option.flag])]))
}

function flagFor(option: StackOption): Flag {
  const common = {
    description: `${option.description}${defaultOf(option)}`,
    helpGroup: `${option.group.toUpperCase()} OPTION`,
  }
  if (option.kind === 'boolean') return boolean({...common, allowNo: true}) as BooleanFlag<boolean>
  if (option.kind === 'choice') return string({...common, options: [...(option.choices ?? [])]})
  return string({...common, helpValue: helpValueOf(option)})
}

function defaultOf({default: byDefault, unit, kind}: StackOption): string {
  if (byDefault === null) return ''
  const text = kind === 'boolean' ? (byDefault ? 'on' : 'off') : String(byDefault)
  return ` Default for new stacks: ${text}${unit === undefined ? '' : ` ${unit}`}.`
}

function helpValueOf({kind, unit}: StackOption): string {
  if (kind === 'list') return 'A,B'
  return kind === 'integer' ? (unit === 'days' ? 'DAYS' : 'NUMBER') : 'TEXT'
}

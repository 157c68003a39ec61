import {parse} from 'yaml'
import {InvalidInput} from '../../core/errors.js'
import {expectedOf, type OptionValue, parseOption, type StackOption} from './option.js'
import {STACK_OPTIONS, type StackOptionValues} from './options.js'
import {checkTags} from './tags.js'

/** The content of an option file. */
interface OptionFile {
  readonly options: StackOptionValues
  readonly tags: Readonly<Record<string, string>>
}

/** Parses options by name, and `tags`, from YAML or JSON; `file` is for messages. */
export function parseOptionFile(text: string, file: string): OptionFile {
  const {tags = {}, ...stated} = mapping(
    read(text, file),
    file,
    'Options are names and values, such as "lambdaMemory: 1024"',
  )
  const options = Object.entries(stated).map(([name, value]) => {
    const option = STACK_OPTIONS.find(each => each.name === name)
    if (!option) {
      const names = STACK_OPTIONS.map(each => each.name).join(', ')
      throw wrong(file, `there is no option "${name}"`, `There are ${names} and tags.`)
    }
    return [name, readValue(option, value, file)]
  })
  return {options: Object.fromEntries(options), tags: readTags(tags, file)}
}

function readTags(tags: unknown, file: string): OptionFile['tags'] {
  const refusal = (key: string, why: string) =>
    wrong(file, `the tag "${key}" ${why}`, 'Tags are names and values, such as "team: platform".')
  const pairs = Object.entries(mapping(tags, file, 'tags are names and values, such as "team: platform"'))
  const texts = pairs.map(([key, value]) => {
    if (typeof value === 'object' && value !== null) {
      throw refusal(key, 'has a value that is not a text, a number, true or false')
    }
    return [key, String(value ?? '')] as const
  })
  return checkTags(texts, (key, _, why) => refusal(key, why))
}

function read(text: string, file: string): unknown {
  try {
    return parse(text) ?? {}
  } catch (error) {
    throw wrong(file, String((error as Error).message).split('\n', 1)[0] ?? 'cannot be read', 'Write YAML or JSON.')
  }
}

/** By the same rules as on the command line. */
function readValue(option: StackOption, value: unknown, file: string): OptionValue {
  if (value === null && option.default === null) return null
  const text = Array.isArray(value) ? value.join(',') : String(value)
  try {
    return parseOption(option, text)
  } catch {
    throw wrong(file, `${option.name} is "${text}"; it must be ${expectedOf(option)}`, 'Correct the value in the file.')
  }
}

function mapping(value: unknown, file: string, expected: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw wrong(file, 'it does not consist of names and values', `${expected}.`)
}

function wrong(file: string, what: string, hint: string): InvalidInput {
  return new InvalidInput('deploy.file', `${file}: ${what}.`, {hint, details: {file}})
}

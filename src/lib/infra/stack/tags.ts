import {InvalidInput} from '../../core/errors.js'
import {readPairs} from '../../core/text/text.js'
import {SCHEMA_VERSION} from '../../repository/table/version-compatibility.js'

type Tags = Readonly<Record<string, string>>

// AWS allows 50 per resource; zael sets five.
export const MAX_USER_TAGS = 45

export function ownTags(stack: string): Tags {
  return {ManagedBy: 'zael', 'zael:name': stack, 'zael:type': 'limiter'}
}

export function stackTags(stack: string, version: string, userTags: Tags): Tags {
  return {...userTags, ...ownTags(stack), 'zael:version': version, 'zael:schema-version': SCHEMA_VERSION}
}

export function parseRemovedTags(keys: readonly string[], given: Tags): readonly string[] {
  for (const key of keys) {
    const problem = isOwnKey(key)
      ? 'is set by zael itself'
      : Object.hasOwn(given, key)
        ? 'is also set with --tag'
        : undefined
    if (problem === undefined) continue
    throw new InvalidInput('deploy.tag', `--remove-tag "${key}" ${problem}.`, {
      hint: 'Name the key of one of your own tags, such as --remove-tag team.',
      details: {tag: key},
    })
  }
  return keys
}

export function omitTags(tags: Tags, removed: readonly string[]): Tags {
  return Object.fromEntries(Object.entries(tags).filter(([key]) => !removed.includes(key)))
}

/** KEY=VALUE; the value may contain equals signs or be empty. Reports all problems at once. */
export function parseTags(texts: readonly string[]): Tags {
  const pairs = readPairs(texts, '=', (problem, {text, name}) =>
    wrong([{text, problem: problem === 'duplicate' ? `gives "${name}" twice` : 'is not of the form KEY=VALUE'}]),
  )
  const refused = pairs.flatMap(({text, name, value}) => {
    const problem = tagProblem(name, value)
    return problem === undefined ? [] : [{text, problem}]
  })
  if (refused.length > 0) throw wrong(refused)
  if (pairs.length > MAX_USER_TAGS) {
    throw new InvalidInput('deploy.tags', `A stack can have at most ${MAX_USER_TAGS} user tags, not ${pairs.length}.`)
  }
  return Object.fromEntries(pairs.map(({name, value}) => [name, value]))
}

/** Completes "the tag …". */
export function tagProblem(key: string, value: string): string | undefined {
  if (key === '') return 'has no key'
  if (key.length > 128) return 'has a key of more than 128 characters'
  if (value.length > 256) return 'has a value of more than 256 characters'
  if (/^aws:/i.test(key)) return 'has a key that begins with "aws:", which only AWS may use'
  if (isOwnKey(key)) return 'has a key that zael sets itself'
  if (!/^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u.test(key + value)) return 'has characters that AWS does not allow'
  return undefined
}

const isOwnKey = (key: string): boolean => key === 'ManagedBy' || key.startsWith('zael:')

function wrong(refused: ReadonlyArray<{readonly text: string; readonly problem: string}>): InvalidInput {
  const message = refused.map(({text, problem}) => `--tag "${text}" ${problem}.`).join('\n')
  return new InvalidInput('deploy.tag', message, {
    hint: 'Write it like --tag team=platform.',
    details: {tag: refused[0]?.text, tags: refused.map(({text}) => text)},
  })
}

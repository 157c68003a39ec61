import {InvalidInput} from '../../core/errors.js'
import {readPairs} from '../../core/pairs.js'
import {SCHEMA_VERSION} from '../../repository/table/version-compatibility.js'

type Tags = Readonly<Record<string, string>>

// AWS allows 50 per resource; zael sets five.
const MAX_USER_TAGS = 45

/** The tags by which zael recognizes its stacks. */
export function ownTags(stack: string): Tags {
  return {ManagedBy: 'zael', 'zael:name': stack, 'zael:type': 'limiter'}
}

/** All tags of a stack: the user's, and zael's own, which take precedence. */
export function stackTags(stack: string, version: string, userTags: Tags): Tags {
  return {...userTags, ...ownTags(stack), 'zael:version': version, 'zael:schema-version': SCHEMA_VERSION}
}

/** Checks the keys of tags to remove: none that is set by the same command, or by zael itself. */
export function parseRemovedTags(keys: readonly string[], given: Tags): readonly string[] {
  for (const key of keys) {
    const problem = isOwnKey(key) ? 'is set by zael itself' : key in given ? 'is also set with --tag' : undefined
    if (problem === undefined) continue
    throw new InvalidInput('deploy.tag', `--remove-tag "${key}" ${problem}.`, {
      hint: 'Name the key of one of your own tags, such as --remove-tag team.',
      details: {tag: key},
    })
  }
  return keys
}

/** The tags without those of the given keys. */
export function omitTags(tags: Tags, removed: readonly string[]): Tags {
  return Object.fromEntries(Object.entries(tags).filter(([key]) => !removed.includes(key)))
}

/** Parses KEY=VALUE; the value may contain further equals signs, or be empty. */
export function parseTags(texts: readonly string[]): Tags {
  const pairs = readPairs(texts, '=', (problem, {text, name}) =>
    wrong(text, problem === 'duplicate' ? `gives "${name}" twice` : 'is not of the form KEY=VALUE'),
  ).map(({name, value}) => [name, value] as const)
  return checkTags(pairs, (key, value, problem) => wrong(`${key}=${value}`, problem))
}

/** Checks tags from any source by the rules of AWS and zael; `toError` creates the error for one of them. */
export function checkTags(
  pairs: ReadonlyArray<readonly [key: string, value: string]>,
  toError: (key: string, value: string, problem: string) => InvalidInput,
): Tags {
  for (const [key, value] of pairs) {
    const problem = tagProblem(key, value)
    if (problem !== undefined) throw toError(key, value, problem)
  }
  if (pairs.length > MAX_USER_TAGS) {
    throw new InvalidInput(
      'deploy.tags',
      `A stack can have at most ${MAX_USER_TAGS} tags of yours, not ${pairs.length}.`,
    )
  }
  return Object.fromEntries(pairs)
}

function tagProblem(key: string, value: string): string | undefined {
  if (key === '') return 'has no key'
  if (key.length > 128) return 'has a key of more than 128 characters'
  if (value.length > 256) return 'has a value of more than 256 characters'
  if (/^aws:/i.test(key)) return 'has a key that begins with "aws:", which only AWS may use'
  if (isOwnKey(key)) return 'has a key that zael sets itself'
  if (!/^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u.test(key + value)) return 'has characters that AWS does not allow'
  return undefined
}

const isOwnKey = (key: string): boolean => key === 'ManagedBy' || key.startsWith('zael:')

function wrong(text: string, problem: string): InvalidInput {
  return new InvalidInput('deploy.tag', `--tag "${text}" ${problem}.`, {
    hint: 'Write it like --tag team=platform.',
    details: {tag: text},
  })
}

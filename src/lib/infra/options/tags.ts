import {InvalidInput} from '../../core/errors.js'
import {readPairs} from '../../core/pairs.js'
import {SCHEMA_VERSION} from '../../repository/table/version-compatibility.js'

type Tags = Readonly<Record<string, string>>

// AWS allows 50 on a resource; five are ours.
const MOST_OWN_TAGS = 45

/** The tags by which zael knows a stack as its own. */
export function ownTags(stack: string): Tags {
  return {ManagedBy: 'zael', 'zael:name': stack, 'zael:type': 'limiter'}
}

/** All tags of a stack: those by which it is found win over those of the user. */
export function stackTags(stack: string, version: string, own: Tags): Tags {
  return {...own, ...ownTags(stack), 'zael:version': version, 'zael:schema-version': SCHEMA_VERSION}
}

/** Keys of tags to take away; none that is set in the same breath, or that stacks are found by. */
export function parseRemovedTags(keys: readonly string[], given: Tags): readonly string[] {
  for (const key of keys) {
    const why = isOurs(key) ? 'is one that zael sets itself' : key in given ? 'is given with --tag too' : undefined
    if (why === undefined) continue
    throw new InvalidInput('deploy.tag', `--remove-tag "${key}" ${why}.`, {
      hint: 'Name the key of a tag of yours, such as --remove-tag team.',
      details: {tag: key},
    })
  }
  return keys
}

/** The tags that are left when some are taken away. */
export function omitTags(tags: Tags, removed: readonly string[]): Tags {
  return Object.fromEntries(Object.entries(tags).filter(([key]) => !removed.includes(key)))
}

/** Reads KEY=VALUE; the value may hold further equals signs, or be empty. */
export function parseTags(texts: readonly string[]): Tags {
  const pairs = readPairs(texts, '=', (problem, {text, name}) =>
    wrong(text, problem === 'duplicate' ? `gives "${name}" twice` : 'is not of the form KEY=VALUE'),
  ).map(({name, value}) => [name, value] as const)
  return checkTags(pairs, (key, value, why) => wrong(`${key}=${value}`, why))
}

/** Demands of tags what AWS and zael demand, wherever they were written; `refusal` words what is wrong with one. */
export function checkTags(
  pairs: ReadonlyArray<readonly [key: string, value: string]>,
  refusal: (key: string, value: string, why: string) => InvalidInput,
): Tags {
  for (const [key, value] of pairs) {
    const why = faultOf(key, value)
    if (why !== undefined) throw refusal(key, value, why)
  }
  if (pairs.length > MOST_OWN_TAGS) {
    throw new InvalidInput('deploy.tags', `A stack can have ${MOST_OWN_TAGS} tags of yours, not ${pairs.length}.`)
  }
  return Object.fromEntries(pairs)
}

function faultOf(key: string, value: string): string | undefined {
  if (key === '') return 'has no key'
  if (key.length > 128) return 'has a key of more than 128 characters'
  if (value.length > 256) return 'has a value of more than 256 characters'
  if (/^aws:/i.test(key)) return 'has a key that begins with "aws:", which only AWS may use'
  if (isOurs(key)) return 'has a key that zael sets itself'
  if (!/^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u.test(key + value)) return 'has characters that AWS does not take'
  return undefined
}

const isOurs = (key: string): boolean => key === 'ManagedBy' || key.startsWith('zael:')

function wrong(text: string, why: string): InvalidInput {
  return new InvalidInput('deploy.tag', `--tag "${text}" ${why}.`, {
    hint: 'Write it like --tag team=platform.',
    details: {tag: text},
  })
}

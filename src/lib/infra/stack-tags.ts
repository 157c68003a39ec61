import {InvalidInput} from '../errors.js'
import {SCHEMA_VERSION} from '../repository/version-compatibility.js'

type Tags = Readonly<Record<string, string>>

// AWS allows 50 on a resource; five are ours.
const MOST_OWN_TAGS = 45

/** The tags by which stacks of zael are found; they win over those of the user. */
export function stackTags(stack: string, version: string, own: Tags): Tags {
  return {
    ...own,
    ManagedBy: 'zael',
    'zael:name': stack,
    'zael:type': 'limiter',
    'zael:version': version,
    'zael:schema-version': SCHEMA_VERSION,
  }
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
export function without(tags: Tags, removed: readonly string[]): Tags {
  return Object.fromEntries(Object.entries(tags).filter(([key]) => !removed.includes(key)))
}

/** Reads KEY=VALUE; the value may hold further equals signs, or be empty. */
export function parseTags(texts: readonly string[]): Tags {
  const tags: Record<string, string> = {}
  for (const text of texts) {
    const at = text.indexOf('=')
    if (at < 1) throw wrong(text, 'is not of the form KEY=VALUE')
    const key = text.slice(0, at)
    const value = text.slice(at + 1)
    if (key.length > 128) throw wrong(text, 'has a key of more than 128 characters')
    if (value.length > 256) throw wrong(text, 'has a value of more than 256 characters')
    if (/^aws:/i.test(key)) throw wrong(text, 'has a key that begins with "aws:", which only AWS may use')
    if (isOurs(key)) throw wrong(text, 'has a key that zael sets itself')
    if (!/^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u.test(key + value)) throw wrong(text, 'has characters that AWS does not take')
    if (key in tags) throw wrong(text, `gives "${key}" twice`)
    tags[key] = value
  }
  if (texts.length > MOST_OWN_TAGS) {
    throw new InvalidInput('deploy.tags', `A stack can have ${MOST_OWN_TAGS} tags of yours, not ${texts.length}.`)
  }
  return tags
}

const isOurs = (key: string): boolean => key === 'ManagedBy' || key.startsWith('zael:')

function wrong(text: string, why: string): InvalidInput {
  return new InvalidInput('deploy.tag', `--tag "${text}" ${why}.`, {
    hint: 'Write it like --tag team=platform.',
    details: {tag: text},
  })
}

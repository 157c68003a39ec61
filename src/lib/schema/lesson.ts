import {type AttributeValue, type Item, s} from './attribute-value.js'
import {attributes} from './attributes.js'
import {readString} from './read.js'

/** What a provider has told about a limit, where it has lowered the balance. */
export interface StoredLesson {
  /** Epoch ms at which it was told. */
  readonly atMs: number
  /** Whole tokens that were left. */
  readonly left?: number | undefined
  /** The provider has refused a request: epoch ms at which one of its size clears. */
  readonly clearsAtMs?: number | undefined
}

const PREFIX = `${attributes.lesson.told}_`

export const isLessonAttribute = (attribute: string): boolean => attribute.startsWith(PREFIX)

export const lessonAttribute = (limit: string): string => `${PREFIX}${limit}`

/** `<instant>|left:<tokens>` or `<instant>|clears:<instant>`: a text, which no client takes for a counter. */
export function encodeLesson({atMs, left, clearsAtMs}: StoredLesson): AttributeValue {
  return s(`${atMs}|${clearsAtMs === undefined ? `left:${left ?? 0}` : `clears:${clearsAtMs}`}`)
}

/** What an item says about its limits, by name; anything malformed is left out. */
export function readLessons(item: Item): ReadonlyMap<string, StoredLesson> {
  const lessons = new Map<string, StoredLesson>()
  for (const attribute of Object.keys(item)) {
    if (!isLessonAttribute(attribute)) continue
    const match = /^(\d{1,15})\|(left|clears):(\d{1,16})$/.exec(readString(item, attribute) ?? '')
    if (!match) continue
    const [atMs, value] = [Number(match[1]), Number(match[3])]
    lessons.set(attribute.slice(PREFIX.length), match[2] === 'left' ? {atMs, left: value} : {atMs, clearsAtMs: value})
  }
  return lessons
}

import {InvalidInput} from '../../core/errors.js'
import {parseJson} from '../../core/text/text.js'
import {ValidationFailed} from '../../dynamo/errors.js'

/** The possible numbers of strings in the cursor of each listing. */
const KEY_LENGTHS = {
  /** Primary key, then the keys of the index. */
  entities: [4],
  'entity-configs': [4],
  /** `resource` and a name, or `entity`, a resource and a cursor of `entity-configs`. */
  configs: [2, 3],
  /** Primary key, then the keys of the index. */
  holders: [4],
  runs: [4],
  /** An entity. */
  buckets: [1],
  /** Window key and resource. */
  'usage-of-entity': [2],
  /** Sort key of the index, then the primary key. */
  'usage-of-resource': [3],
  /** Primary key. */
  'audit-of-entity': [2],
  /** An event id. */
  audit: [1],
  /** Primary key. */
  verify: [2],
} satisfies Record<string, readonly number[]>

export type CursorKind = keyof typeof KEY_LENGTHS

export function encodeCursor(kind: CursorKind, key: readonly string[]): string {
  return Buffer.from(JSON.stringify([kind, ...key])).toString('base64url')
}

/** Throws for another listing's cursor. Callers check the key's range. Old cursors lack the kind or are plain text. */
export function decodeCursor(kind: CursorKind, text: string): string[] {
  const parts = parseStrings(Buffer.from(text, 'base64url').toString())
  const hasKind = parts !== undefined && Object.hasOwn(KEY_LENGTHS, parts[0] ?? '')
  if (hasKind && parts[0] !== kind) throw badCursor(text)
  const key = hasKind ? parts.slice(1) : (parts ?? [text])
  const lengths: readonly number[] = KEY_LENGTHS[kind]
  if (!lengths.includes(key.length)) throw badCursor(text)
  return key
}

/** The query is valid without the cursor. If DynamoDB refuses it, the cursor is made up, or outside the selection. */
export async function readFromCursor<T>(cursor: string | undefined, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (cursor !== undefined && error instanceof ValidationFailed) throw badCursor(cursor)
    throw error
  }
}

// Characters; enough to recognise a longer cursor.
const MAX_SHOWN_CURSOR = 100

export function badCursor(cursor: string): InvalidInput {
  const shown = cursor.length > MAX_SHOWN_CURSOR ? `${cursor.slice(0, MAX_SHOWN_CURSOR)}…` : cursor
  return new InvalidInput('page.cursor', `${JSON.stringify(shown)} is not a cursor of this listing.`, {
    hint: "Pass the previous page's cursor unchanged, with the same selection, or start without a cursor.",
  })
}

function parseStrings(text: string): string[] | undefined {
  const value = parseJson(text)
  return Array.isArray(value) && value.every(each => typeof each === 'string') ? value : undefined
}

import {describe, expect, it} from 'vitest'
import {ValidationFailed} from '../../../src/lib/dynamo/errors.js'
import {type CursorKind, decodeCursor, encodeCursor, readFromCursor} from '../../../src/lib/repository/table/cursor.js'

const KEYS: Record<CursorKind, string[]> = {
  entities: ['ns/ENTITY#a', '#META', 'ns', 'ns/ENTITY#a'],
  'entity-configs': ['ns/ENTITY#a', '#CONFIG#r', 'ns/ENTITY_CONFIG#r', 'a'],
  holders: ['ns/HOLDER#h', '#HOLDER', 'ns', 'HOLDER#h'],
  runs: ['ns/ENTITY#zael.run:r', '#CONFIG#r', 'ns', 'RUN#1#r'],
  configs: ['entity', 'r', ''],
  buckets: ['user-ü "1"'],
  'usage-of-entity': ['2026-01-01', 'r'],
  'usage-of-resource': ['USAGE#2026', 'ns/ENTITY#a', '#USAGE#r#2026'],
  'audit-of-entity': ['ns/AUDIT#a', '#AUDIT#1'],
  audit: ['01J00000000000000000000000'],
  verify: ['ns/ENTITY#a', '#META'],
}
const KINDS = Object.keys(KEYS) as CursorKind[]

const token = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('cursor', () => {
  it.each(KINDS)('of %s decodes to the same position, and is refused by every other listing', kind => {
    const cursor = encodeCursor(kind, KEYS[kind])
    expect(cursor).toMatch(/^[\w-]+$/)
    expect(decodeCursor(kind, cursor)).toEqual(KEYS[kind])
    for (const other of KINDS.filter(each => each !== kind)) {
      expect(() => decodeCursor(other, cursor)).toThrowError(expect.objectContaining({code: 'page.cursor'}))
    }
  })

  it.each(KINDS.filter(kind => KEYS[kind].length > 1))('reads an older cursor of %s, which names no listing', kind => {
    expect(decodeCursor(kind, token(KEYS[kind]))).toEqual(KEYS[kind])
  })

  it.each(['buckets', 'audit'] as const)('reads an older cursor of %s, which is the key itself', kind => {
    for (const key of [...KEYS[kind], 'buckets', 'audit']) expect(decodeCursor(kind, key)).toEqual([key])
  })

  it.each([
    ['', 'entities'],
    ['nonsense', 'entities'],
    [token(['entities', 'one']), 'entities'],
    [token(['entities', 1, 2, 3, 4]), 'entities'],
    [token(['ns/ENTITY#a', '#META', 'ns']), 'entities'],
    [token({}), 'usage-of-entity'],
    [token([]), 'configs'],
    [token(['buckets', 'a', 'b']), 'buckets'],
    [token(['buckets']), 'buckets'],
  ] as const)('refuses %s for %s', (text, kind) => {
    expect(() => decodeCursor(kind, text)).toThrowError(
      expect.objectContaining({code: 'page.cursor', message: expect.stringContaining('not a cursor of this listing')}),
    )
  })

  it('is shortened in errors when it is long', () => {
    expect(() => decodeCursor('entities', 'x'.repeat(5000))).toThrow(`"${'x'.repeat(100)}…" is not a cursor`)
  })

  it('reports a start that DynamoDB refuses as a bad cursor; the same error without a cursor is a bug', async () => {
    const read = () => Promise.reject(new ValidationFailed('Query'))
    await expect(readFromCursor('abc', read)).rejects.toMatchObject({code: 'page.cursor', kind: 'usage'})
    await expect(readFromCursor(undefined, read)).rejects.toMatchObject({code: 'dynamo.validation'})
  })
})

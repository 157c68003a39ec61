import fc from 'fast-check'
import {expect, it} from 'vitest'
import {legacySortKeys} from '../../src/lib/schema/legacy-key.js'

it('keeps the items of every resource in its queried range, with any names', () => {
  const name = fc.string({
    minLength: 1,
    maxLength: 4,
    unit: fc.constantFrom('a', 'b', ' ', '!', '#', '$', '-', '/', 'é'),
  })
  const isUpTo = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b)) <= 0
  fc.assert(
    fc.property(fc.array(name, {minLength: 1, maxLength: 5}), name, (resources, limit) => {
      const [from, to] = legacySortKeys.buckets(new Set(resources))
      for (const resource of resources) {
        for (const key of [`#BUCKET#${resource}`, `#BUCKET#${resource}#${limit}`]) {
          expect(isUpTo(from, key) && isUpTo(key, to)).toBe(true)
        }
      }
    }),
  )
})

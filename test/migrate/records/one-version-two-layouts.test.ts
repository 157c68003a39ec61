import {describe, expect, it} from 'vitest'
import {classifyItem} from '../../../src/lib/migrate/records/classify.js'
import {checkCompatibility} from '../../../src/lib/repository/table/version-compatibility.js'
import {type Item, readString, s} from '../../../src/lib/schema/attribute-value.js'
import {makePopulation} from '../fixtures/make-population.js'
import {itemsOf} from '../fixtures/old-table.js'

/**
 * 0.9 and 0.10.0 recorded the same version for two layouts, and the first releases one that sorts above all later ones.
 * Neither number decides what an item is.
 */
describe('D-45 recorded versions do not describe the data', () => {
  const population = makePopulation({entities: 4})
  const recorded = (items: readonly Item[]) =>
    items.filter(item => readString(item, 'SK') === '#VERSION').map(item => readString(item, 'schema_version'))
  const bucketGenerations = (items: readonly Item[]) =>
    new Set(
      items
        .map(item => classifyItem(item))
        .flatMap(found => (found.kind === 'old' && found.type === 'bucket' ? [found.generation] : [])),
    )

  it('0.8.0 stands for two layouts, which are distinguished', () => {
    expect(recorded(itemsOf(4, population))).toEqual(['0.8.0'])
    expect(recorded(itemsOf(5, population))).toEqual(['0.8.0'])
    expect(bucketGenerations(itemsOf(4, population))).toEqual(new Set([4]))
    expect(bucketGenerations(itemsOf(5, population))).toEqual(new Set([5]))
  })

  it('1.0.0 in the old place is the oldest layout, not a newer one', () => {
    const record = {PK: s('SYSTEM#'), SK: s('#VERSION'), schema_version: s('1.0.0')}
    expect(classifyItem(record)).toMatchObject({kind: 'old', generation: 2, type: 'version'})
    expect(() => checkCompatibility(undefined, '0.1.0', true)).toThrow(
      expect.objectContaining({code: 'schema.needs-migration', kind: 'conflict'}),
    )
  })
})

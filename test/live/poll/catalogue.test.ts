import {describe, expect, it} from 'vitest'
import {Catalogue} from '../../../src/lib/live/poll/catalogue.js'
import {READ_AT_MS, shardOf} from '../support.js'

const limits = {rpm: {capacity: 100}}
const at = (entity: string, ...shards: number[]) => shards.map(shard => ({entity, resource: 'r', shard}))
const shard = (entity: string, number: number, shardCount = 1) => shardOf(`${entity}#r`, number, {limits, shardCount})

describe('the catalogue', () => {
  it('reads shard 0 even if the index lacks it, and all shards that shard 0 counts', () => {
    const catalogue = new Catalogue()
    catalogue.addShards(at('a', 1))
    expect(catalogue.addressesOf(['a#r'])).toEqual(at('a', 0, 1))
    expect(catalogue.unknownShards([shard('a', 0, 4), shard('a', 1, 4)])).toEqual(at('a', 2, 3))
  })

  it('looks for the shards of an absurd count only once', () => {
    const catalogue = new Catalogue()
    catalogue.addShards(at('a', 0, 1))
    const stored = [shard('a', 0, 1_000_000), shard('a', 1, 1_000_000)]
    expect(catalogue.unknownShards(stored)).toHaveLength(1022)
    catalogue.update(['a#r'], stored, READ_AT_MS)
    expect(catalogue.unknownShards(stored)).toEqual([])
    expect(catalogue.addressesOf(['a#r'])).toEqual(at('a', 0, 1))
    catalogue.addShards(at('a', 7))
    expect(catalogue.addressesOf(['a#r'])).toEqual(at('a', 0, 1, 7))
  })

  it('keeps a deleted bucket for one poll, as gone', () => {
    const catalogue = new Catalogue()
    catalogue.addShards([...at('a', 0), ...at('b', 0), ...at('never-read', 0)])
    catalogue.update(['a#r', 'b#r'], [shard('a', 0), shard('b', 0)], READ_AT_MS)
    const ghost = {kind: 'ghost', namespace: 'ns', entity: 'b', resource: 'r', shard: 0, residue: new Map()} as const
    catalogue.update(['a#r', 'b#r', 'never-read#r'], [shard('a', 0), ghost], READ_AT_MS + 2000)
    const gone = () => [...catalogue.readings().values()].map(({id, isGone}) => [id, isGone])
    expect(gone()).toEqual([
      ['b#r', true],
      ['a#r', false],
    ])
    expect(catalogue.size()).toEqual({count: 1, unreadable: 1})
    catalogue.update(['a#r'], [shard('a', 0)], READ_AT_MS + 4000)
    expect(gone()).toEqual([['a#r', false]])
  })
})

import fc from 'fast-check'
import {expect, it} from 'vitest'
import {compact} from '../../src/lib/watch/compact.js'
import {anyBucket, shardOf} from './support.js'

it('a compact record says the same', () => {
  fc.assert(
    fc.property(anyBucket, ({shards}) => {
      for (const shard of shards) expect(compact(shard)).toEqual(shard)
    }),
  )
})

it('keeps what another client left of a limit', () => {
  const shard = shardOf('a#b', 0, {limits: {}})
  if (shard.kind !== 'bucket') throw new Error('no bucket')
  const incomplete = new Map([['rpm', {tokensMilli: -5n, consumedMilli: 7n}]])
  expect(compact({...shard, incomplete})).toMatchObject({incomplete})
})

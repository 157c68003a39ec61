import {describe, expect, it} from 'vitest'
import type {Reading} from '../../../src/lib/live/model/model.js'
import {PackedReadings, PackedValues} from '../../../src/lib/live/poll/packed-readings.js'
import {nextReading} from '../../../src/lib/live/poll/reading.js'
import {bucketOf, READ_AT_MS} from '../support.js'

function readingAt(at: number): Reading {
  const limits = {rpm: {capacity: 100, left: at % 100, consumed: at}, tpm: {capacity: 10_000, consumed: at * 7}}
  const sketch = {limits, writes: at, parent: `team-${at % 50}`}
  return nextReading(undefined, bucketOf(`user-${String(at).padStart(8, '0')}#gpt-4`, sketch), READ_AT_MS)
}

describe('packed readings', () => {
  it('take few bytes each, also when the table of shared texts is full', () => {
    const packed = new PackedValues()
    for (let at = 0; at < 10_000; at++) packed.add(`a text that is kept once ${at}`)
    const first = packed.add(readingAt(0))
    for (let at = 1; at < 1000; at++) packed.add(readingAt(at))
    const bytes = packed.add('the end') - first
    expect(bytes / 1000).toBeLessThan(150)
  })

  it('are decoded on every read, not kept as objects', () => {
    const packed = new PackedReadings()
    const reading = readingAt(7)
    packed.add(reading)
    const {entity, resource, shardCount, shards} = reading.bucket
    expect(packed.get(reading.id)).toStrictEqual({...reading, bucket: {entity, resource, shardCount, shards}})
    expect(packed.get(reading.id)).not.toBe(packed.get(reading.id))
  })
})

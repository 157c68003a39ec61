import {setFlagsFromString} from 'node:v8'
import {runInNewContext} from 'node:vm'
import {expect, it} from 'vitest'
import type {Reading} from '../../src/lib/watch/model.js'
import {PackedReadings} from '../../src/lib/watch/packed-readings.js'
import {nextReading} from '../../src/lib/watch/reading.js'
import {bucketOf, READ_AT_MS} from './support.js'

const BUCKETS = 12_000

/** Bytes in use after everything that can be collected was collected. */
function bytesInUse(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const {heapUsed, arrayBuffers} = process.memoryUsage()
  return heapUsed + arrayBuffers
}

function readingAt(at: number): Reading {
  const limits = {rpm: {capacity: 100, left: at % 100, consumed: at}, tpm: {capacity: 10_000, consumed: at * 7}}
  const sketch = {limits, writes: at, parent: `team-${at % 50}`}
  return nextReading(undefined, bucketOf(`user-${String(at).padStart(8, '0')}#gpt-4`, sketch), READ_AT_MS)
}

it('a packed reading takes a few hundred bytes', () => {
  const before = bytesInUse()
  const packed = new PackedReadings()
  for (let at = 0; at < BUCKETS; at++) packed.add(readingAt(at))
  const bytes = (bytesInUse() - before) / BUCKETS
  expect(packed.size).toBe(BUCKETS)
  expect(bytes).toBeLessThan(400)
})

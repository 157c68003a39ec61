import {expect, it} from 'vitest'
import {scenarioOf} from '../profiles.js'
import {run} from '../run.js'

it('S5: refunds after a lost first request, even if the bucket was evicted from the cache', async () => {
  const {violations} = await run({...scenarioOf('mixed', 1_600_017), cacheSize: 1})
  expect(violations).toEqual([])
})

it('S5: refunds after a lost first request, even after an unanswered write of the same process', async () => {
  const {violations} = await run(scenarioOf('faults', 4_001_143))
  expect(violations).toEqual([])
})

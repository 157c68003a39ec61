import {expect, it} from 'vitest'
import {scenarioOf} from '../profiles.js'
import {run} from '../run.js'

it('S5: a return whose first request is lost is made, also by a process that has dropped the bucket from its cache', async () => {
  const {violations} = await run({...scenarioOf('mixed', 1_600_017), cacheSize: 1})
  expect(violations).toEqual([])
})

it('S5: a return whose first request is lost is made, also after a write of the same process whose answer never came', async () => {
  const {violations} = await run(scenarioOf('faults', 4_001_143))
  expect(violations).toEqual([])
})

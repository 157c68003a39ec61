import {describe, expect, it} from 'vitest'
import {checkLines} from '../../../src/lib/cli/stack/doctor.js'
import {healthJson, statusHealthLines} from '../../../src/lib/cli/stack/status-presenter.js'
import {stackChecks} from '../../../src/lib/infra/doctor/stack-checks.js'
import {healthWith, WELL} from './sample-health.js'

// The same on an emulated AWS with the built command line: test/aws/status.slow.test.ts and doctor.slow.test.ts.

describe('C-15 the aggregator was called enabled whenever the stream was on', () => {
  it.each([
    ['Disabled', {...WELL.mapping, state: 'Disabled'}],
    ['failing', {...WELL.mapping, lastResult: 'PROBLEM: Function call failed'}],
    ['gone', null],
  ])('reports a mapping that is %s, although the stream is on', (_, mapping) => {
    const health = healthWith({mapping})
    expect(health).toMatchObject({isHealthy: false, table: {stream: 'NEW_AND_OLD_IMAGES'}})
    expect(health.findings.map(({part}) => part)).toEqual(['mapping'])
    expect(statusHealthLines(health, null).at(-1)).toContain('prod is degraded: 1 problem')
  })

  it('shows alarms, dead letters, lag, mapping and policy ARNs', () => {
    const text = statusHealthLines(healthWith(), null).join('\n')
    for (const words of ['mapping ', 'lag ', 'dead letters ', 'prod-aggregator-errors', ':policy/prod-acq']) {
      expect(text).toContain(words)
    }
  })
})

it('C-41 lists alarms with their states, and counts dead letters', () => {
  const alarms = [{...WELL.alarms[0], state: 'ALARM', reason: 'too many'}, WELL.alarms[1]]
  const health = healthWith({alarms, deadLetters: {queue: 'prod-aggregator-dlq', messages: 4}})
  expect(healthJson(health, null)).toMatchObject({alarms, deadLetters: {messages: 4}, healthy: false})
  const text = statusHealthLines(health, null).join('\n')
  expect(text).toMatch(/prod-aggregator-errors {2}alarm\n/)
  expect(text).toMatch(/dead letters +4 in prod-aggregator-dlq\n/)
})

it('C-42 lists every problem of a stack on its own line, with a fix', () => {
  const unhealthy = healthWith({
    table: {...WELL.table, stream: 'KEYS_ONLY', expiry: false},
    mapping: {...WELL.mapping, state: 'Disabled', filters: []},
    deadLetters: {queue: 'q', messages: 1},
    versions: {...WELL.versions, problem: {message: 'too old', fix: 'zael migrate'}},
  })
  const failed = stackChecks(unhealthy, WELL.mapping.filters, '0.1.0').filter(({state}) => state === 'fail')
  expect(failed.map(({name}) => name)).toEqual(['table', 'stream', 'mapping', 'filters', 'dead letters', 'layout'])
  expect(failed.filter(({fix}) => fix === null)).toEqual([])
  expect(checkLines(failed).at(-1)).toBe('0 ok, 0 warn, 6 fail')
})

import {expect, it} from 'vitest'
import {endLines} from '../../../src/lib/cli/limits/boost.js'
import {windowsUntil} from '../../../src/lib/core/calendar/windows-until.js'
import {withBoost} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'

const NOW_MS = Date.parse('2026-11-16T14:36:12Z')

it.each([
  ['with the boost', '2026-11-17T12:00Z', 'the limits of resource r apply'],
  ['with another one, later', '2026-11-18T12:00Z', 'the permanent values apply'],
])('says which limits follow a boost whose copy ends %s', (_, copyEnd, then) => {
  const untilMs = Date.parse('2026-11-17T12:00Z')
  const [limit, value] = [parseLimit('rpm=10/min'), parseLimit('rpm=20/min')]
  const {crons} = windowsUntil('UTC', NOW_MS, untilMs)
  const after = [withBoost(limit, value, {crons, timeZone: 'UTC', untilMs})]
  const scope = {level: 'entity', entity: 'e1', resource: 'r'} as const
  const unset = {onUnavailable: undefined, auditRetentionDays: undefined}
  const record = {namespace: 'n', scope, limits: after, copiedUntilMs: Date.parse(copyEnd), ...unset}
  const change = {scope, before: [limit], after, previous: undefined, record}
  const next = {scope: {level: 'resource', resource: 'r'} as const, limits: [limit]}
  const lines = endLines(change, {given: [value], until: new Date(untilMs), next}, '')
  expect(lines[1]).toContain(`Expires at 2026-11-17 12:00 UTC; then ${then}.`)
})

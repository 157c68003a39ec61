import {expect, it} from 'vitest'
import {endLines} from '../../../src/lib/cli/limits/boost.js'
import {windowsUntil} from '../../../src/lib/core/calendar/windows-until.js'
import {withBoost} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'

const NOW_MS = Date.parse('2026-11-16T14:36:12Z')

/** The printed lines for a limit with a temporary value. */
function said(base: string, boost: string, until: string): string[] {
  const untilMs = Date.parse(until)
  const [limit, value] = [parseLimit(base), parseLimit(boost)]
  const timeZone = limit.timeZone ?? 'UTC'
  const after = [withBoost(limit, value, {crons: windowsUntil(timeZone, NOW_MS, untilMs).crons, timeZone, untilMs})]
  const scope = {level: 'entity', entity: 'e1', resource: 'r'} as const
  const change = {scope, before: [limit], after, previous: undefined, record: undefined}
  return endLines(change, {given: [value], until: new Date(until), nowMs: NOW_MS}, ' --stack x')
    .slice(2)
    .filter(line => line !== '')
}

it.each([
  [
    'is reset before the end',
    ['rpd=10k/day@UTC', 'rpd=20k/day@UTC', '2026-11-17T12:00Z'],
    'rpd: 20,000 from the next reset, at 2026-11-17 00:00 UTC. On expiry, any balance above 10,000 is lost.',
  ],
  [
    'is of a session',
    ['s=200/5hour!', 's=400/5hour!', '2026-11-17T00:00Z'],
    's: sessions that start before expiry get 400; open sessions keep their balance. On expiry, any balance above 200 is lost.',
  ],
  [
    'is less',
    ['rpd=10k/day@UTC', 'rpd=4k/day@UTC', '2026-11-17T12:00Z'],
    'rpd: balances above 4,000 are cut at once. Only the next reset after expiry restores them.',
  ],
])('explains the effect on a quota that %s', (_, [base = '', boost = '', until = ''], expected) => {
  const lines = said(base, boost, until)
  expect(lines[0]).toBe(expected)
  expect(lines.slice(1).join()).toMatch(
    base.includes('10k') && boost.includes('4k') ? /^$/ : /zael bucket top-up e1 r /,
  )
})

it('prints nothing about quotas for a rate', () => {
  expect(said('rpm=10/min', 'rpm=20/min', '2026-11-17T12:00Z')).toEqual([])
})

it.each([
  ['with the boost', '2026-11-17T12:00Z', 'entity e1 for r has no limits of its own, and the next level applies'],
  ['with another one, later', '2026-11-18T12:00Z', 'the value shown after "then" applies'],
])('says which limits follow a boost whose copy ends %s', (_, copyEnd, then) => {
  const untilMs = Date.parse('2026-11-17T12:00Z')
  const [limit, value] = [parseLimit('rpm=10/min'), parseLimit('rpm=20/min')]
  const {crons} = windowsUntil('UTC', NOW_MS, untilMs)
  const after = [withBoost(limit, value, {crons, timeZone: 'UTC', untilMs})]
  const scope = {level: 'entity', entity: 'e1', resource: 'r'} as const
  const unset = {onUnavailable: undefined, auditRetentionDays: undefined}
  const record = {namespace: 'n', scope, limits: after, copiedUntilMs: Date.parse(copyEnd), ...unset}
  const change = {scope, before: [limit], after, previous: undefined, record}
  const lines = endLines(change, {given: [value], until: new Date(untilMs), nowMs: NOW_MS}, '')
  expect(lines[1]).toContain(`Expires at 2026-11-17 12:00 UTC; then ${then}.`)
})

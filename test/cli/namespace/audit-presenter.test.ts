import {expect, it} from 'vitest'
import {auditEventJson, auditFacts, auditLine, auditListing} from '../../../src/lib/cli/namespace/audit-presenter.js'
import type {AuditRecord} from '../../../src/lib/schema/audit-record.js'
import {listed} from '../../helpers/lines.js'

const record: AuditRecord = {
  namespace: 'ns',
  entity: 'user-1',
  eventId: '01KA0000000000000000000000',
  timestamp: '2026-11-01T10:00:00Z',
  action: 'limits_set',
  principal: 'ops',
  resource: 'gpt-4',
  details: {limits: [{name: 'rpm'}], why: 'more room'},
  ttlSeconds: 1_800_000_000,
}
const bare: AuditRecord = {...record, principal: undefined, resource: undefined, details: {}, ttlSeconds: undefined}

const UNITS = new Map([['usd', 'USD']])

it('shows amounts of money with their unit', () => {
  const topUp = {...bare, action: 'bucket_topped_up', details: {amounts: {usd: 1_100_000, rpd: 5000}, shards: 1}}
  const details = 'amounts: rpd 5,000, usd $1.10; shards: 1'
  expect(auditLine(topUp, UNITS).split('  ').at(-1)).toBe(details)
  expect(auditFacts(topUp, UNITS).at(-1)).toContain(details)
  expect(auditLine({...topUp, details: {amounts: null}}, UNITS)).toContain('amounts: null')
})

it('shows time, action, entity, principal and details in a line', () => {
  expect(auditLine(record, UNITS)).toBe(
    '2026-11-01T10:00:00Z  limits_set  user-1 gpt-4  by ops  limits: [{"name":"rpm"}]; why: more room',
  )
  expect(auditLine(bare, UNITS)).toBe('2026-11-01T10:00:00Z  limits_set  user-1')
})

it('shows limits in the syntax of limits set', () => {
  const limits = [{name: 'rpm', capacity: 50, refill_amount: 10, refill_period_seconds: 1}]
  const changed = {...bare, details: {limits, before: [], reset: true}}
  expect(auditLine(changed, UNITS)).toMatch(/ {2}before: none; limits: rpm=10\/sec:50; reset: true$/)
})

it('describes a switch in words, with its previous value if recorded', () => {
  const switched = (details: AuditRecord['details']) =>
    auditLine({...bare, details}, UNITS)
      .split('  ')
      .at(-1)
  expect(switched({disabled: true, before: {disabled: false}})).toBe('disabled: no → yes')
  expect(switched({disabled: null, before: {disabled: true}})).toBe('disabled: yes → not set')
  expect(switched({disabled: 'bypass', buckets_stamped: 2})).toBe('disabled: bypass; buckets_stamped: 2')
})

it('stacks events that do not fit into the width, and wraps their details', async () => {
  const switched = {...record, details: {disabled: true, before: {disabled: null}, reason: 'leaked in a public issue'}}
  const shown = (width: number) => listed(auditListing([switched], false, UNITS), {'no-header': false}, width)
  expect((await shown(120))[0]).toMatch(/^TIME \(UTC\) +ACTION +ENTITY +RESOURCE +BY +DETAILS$/)
  expect((await shown(80)).join('\n')).toMatchInlineSnapshot(`
    "2026-11-01T10:00:00Z  limits_set  user-1  gpt-4
      BY ops  DETAILS disabled: not set → yes; reason: leaked in a public issue"
  `)
  expect((await shown(40)).join('\n')).toMatchInlineSnapshot(`
    "2026-11-01T10:00:00Z  limits_set  user-1
      gpt-4
      BY ops
      DETAILS disabled: not set → yes;
          reason: leaked in a public issue"
  `)
  expect(await listed(auditListing([], false, UNITS), {'no-header': false}, 80)).toEqual([
    'No audit events in that time.',
  ])
})

it('shows one event with all its fields', () => {
  expect(auditFacts(record, UNITS).join('\n')).toMatchInlineSnapshot(`
    "Event 01KA0000000000000000000000
      time        2026-11-01T10:00:00Z
      action      limits_set
      entity      user-1
      resource    gpt-4
      by          ops
      kept until  2027-01-15T08:00:00.000Z
      details     limits: [{"name":"rpm"}]; why: more room"
  `)
  expect(auditFacts(bare, UNITS)).toHaveLength(4)
})

it('has the same JSON keys in every case', () => {
  expect(auditEventJson(bare)).toEqual({
    id: record.eventId,
    time: record.timestamp,
    action: 'limits_set',
    entity: 'user-1',
    resource: null,
    principal: null,
    details: {},
    expiresAt: null,
  })
  expect(Object.keys(auditEventJson(record))).toEqual(Object.keys(auditEventJson(bare)))
})

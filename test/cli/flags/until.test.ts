import {expect, it} from 'vitest'
import {untilOf} from '../../../src/lib/cli/flags/until.js'

const NOW_MS = Date.parse('2026-11-16T14:36:12Z')
const iso = (flags: Parameters<typeof untilOf>[0]): string | undefined => untilOf(flags, NOW_MS)?.toISOString()

it.each([
  [{}, undefined],
  [{for: '24h'}, '2026-11-17T14:36:12.000Z'],
  [{for: '90m'}, '2026-11-16T16:06:12.000Z'],
  [{until: '2026-12-01'}, '2026-12-01T00:00:00.000Z'],
  [{until: '2026-12-01T14:30'}, '2026-12-01T14:30:00.000Z'],
  [{until: '2026-12-01T14:30Z'}, '2026-12-01T14:30:00.000Z'],
  [{until: '2026-12-01T14:30+05:30'}, '2026-12-01T09:00:00.000Z'],
  [{until: '2026-12-01T14:30@Europe/Berlin'}, '2026-12-01T13:30:00.000Z'],
  [{until: '2026-12-01@Asia/Kathmandu'}, '2026-11-30T18:15:00.000Z'],
  [{until: '2027-03-28T03:00@Europe/Berlin'}, '2027-03-28T01:00:00.000Z'],
])('reads an end from %o', (flags, expected) => {
  expect(iso(flags)).toBe(expected)
})

it.each(['T', ' '])('refuses a date with an offset and a zone, with %j before the time', separator => {
  for (const zone of ['+02:00', 'Z'])
    expect(() => iso({until: `2026-12-01${separator}14:30${zone}@Europe/Berlin`})).toThrow('has two time zones')
  expect(iso({until: `2026-12-01${separator}14:30@Europe/Berlin`})).toBe('2026-12-01T13:30:00.000Z')
})

it.each(['24h', '90m', '7d', '0h'])('refuses a duration: %s', until => {
  expect(() => iso({until})).toThrow(
    expect.objectContaining({code: 'time.syntax', hint: `To expire the values after this duration: --for ${until}`}),
  )
})

it.each([
  ['2027-03-28T02:30@Europe/Berlin', /does not exist in Europe\/Berlin/, 'Choose a time an hour earlier or later.'],
  [
    '2026-10-25T02:30@Europe/Berlin',
    /occurs twice in Europe\/Berlin/,
    'Write one of them in UTC: 2026-10-25T00:30Z or 2026-10-25T01:30Z.',
  ],
])('refuses a time that the clock skips or repeats: %s', (until, message, hint) => {
  expect(() => iso({until})).toThrow(expect.objectContaining({message: expect.stringMatching(message), hint}))
})

import {createHash} from 'node:crypto'
import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../src/lib/core/errors.js'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {fingerprint} from '../../src/lib/manifest/fingerprint.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
const manifest = (limit: string) => `namespace: a\nresources:\n  g:\n    limits:\n      q: ${limit}\n`
const parsed = (limit: string) => parseManifest(manifest(limit), {file: 'f'}).resources.get('g')?.limits

function problem(text: string): string {
  try {
    parseManifest(text, {file: 'f'})
  } catch (error) {
    if (error instanceof InvalidInput) return error.message
    throw error
  }
  throw new Error('expected a problem')
}

describe('limits of all kinds in a manifest', () => {
  it.each([
    ["'10k/day@Europe/Berlin'", 'q=10k/day@Europe/Berlin'],
    ['\'10k@"0 9 * * MON-FRI",soft\'', 'q=10k@"0 9 * * 1-5",soft'],
    ['200/5h!', 'q=200/5hour!'],
    ['20/inflight', 'q=20/inflight'],
    ['$500/month@UTC', 'q=$500/month@UTC'],
    ['{capacity: 10, reset_schedule: [{cron: 0 0 * * *, tz: Europe/Berlin}]}', 'q=10/day@Europe/Berlin'],
    ['{capacity: 10, refill_amount: 0, refill_period: 60, reset_schedule: [{cron: 0 0 * * *}]}', 'q=10/day@UTC'],
    ['{capacity: 200, reset_after_seconds: 18000, soft: true}', 'q=200/5h!,soft'],
    ['{capacity: 10, schedule: [{cron: "* 9 * * *", scale: 0.5}]}', 'q=10,x0.5@"* 9 * * *"'],
    [
      '{capacity: 10, schedule: [{cron: "* 9 * * SUN", tz: Asia/Tokyo, capacity: 5, refill_amount: 6, refill_period_seconds: 7}]}',
      'q=10,6/7sec:5@"* 9 * * 7 Asia/Tokyo"',
    ],
    ['{capacity: 10, soft: false}', 'q=10'],
  ])('read %s as %s', (written, text) => {
    expect(parsed(written)).toEqual([parseLimit(text)])
  })

  it.each([
    ['10k/day@Europe/Berlim', '5:18 resources.g.limits.q: time zone "Europe/Berlim" does not exist'],
    ['{capacity: 1, reset_schedule: [{cron: 0 0 * * *}], reset_after_seconds: 5}', 'one kind of reset'],
    ['{capacity: 1, refill_amount: 1, reset_after_seconds: 5}', 'its refill amount must be 0'],
    ['{capacity: 1, refill_amount: 0}', 'refill amount of limit'],
    ['{capacity: 1, reset_schedule: []}', 'reset_schedule has no entries'],
    ['{capacity: 1, reset_schedule: [{cron: 0 0 * *}]}', 'five fields'],
    ['{capacity: 1, reset_schedule: [{cron: 0 0 * * *, scale: 2}]}', '"scale" is not a key here'],
    ['{capacity: 1, schedule: [{cron: "* 9 * * *"}]}', 'changes nothing'],
    ['{capacity: 1, schedule: [{cron: "* 9 * * *", scale: 0}]}', 'schedule'],
    ['{capacity: 1, reset_schedule: [{cron: 0 0 * * *}, {cron: 0 1 * * *, tz: Asia/Tokyo}]}', 'not UTC and Asia/Tokyo'],
    ['20/inflight:30', 'an in-flight limit has no burst'],
    ['{capacity: 1, soft: 1}', 'must be true or false'],
    ['5/day@UTC\n      r: 5/day@Asia/Tokyo', 'share one time zone'],
    [
      ['1/min', ...Array.from({length: 47}, (_, at) => `limit-${at}: 1/min`)].join('\n      '),
      '48 limits are too many: the maximum is 47',
    ],
  ])('refuse %s', (written, why) => {
    expect(problem(manifest(written))).toContain(why)
  })

  it('have the fingerprint of the Python system', () => {
    const text = manifest('{capacity: 10, reset_schedule: [{cron: 0 0 * * *, tz: Europe/Berlin}], soft: true}')
    // json.dumps(Manifest.from_dict(...).to_dict(), sort_keys=True) of zae-limiter 0.17.0, hashed.
    const form =
      '{"namespace": "a", "resources": {"g": {"limits": {"q": {"capacity": 10, "refill_amount": 0, "refill_period": 60, "reset_schedule": [{"cron": "0 0 * * *", "tz": "Europe/Berlin"}], "soft": true}}}}}'
    expect(fingerprint(parseManifest(text, {file: 'f'}))).toBe(`sha256:${sha256(form)}`)
  })
})

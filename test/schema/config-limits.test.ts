import {describe, expect, it} from 'vitest'
import type {Limit} from '../../src/lib/core/limits/limit.js'
import {parseLimit, parseLimits} from '../../src/lib/core/limits/limit-text.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {limitDetails, limitOfDetails} from '../../src/lib/schema/audit-record.js'
import {encodeConfigLimits, isOtherForm, readConfigLimits, withoutLimits} from '../../src/lib/schema/config-limits.js'

const read = (item: Item): Limit[] =>
  readConfigLimits(item, (_, error) => {
    throw error
  })

describe('limits in a configuration item', () => {
  it.each<[string, Item]>([
    ['tpm=100/min:200', {l_tpm_cp: {N: '200'}, l_tpm_ra: {N: '100'}, l_tpm_rp: {N: '60'}}],
    [
      'rpd=10k/day@Europe/Berlin',
      {
        l_rpd_cp: {N: '10000'},
        l_rpd_ra: {N: '0'},
        l_rpd_rp: {N: '1'},
        l_rpd_rsched: {S: '1m0h0'},
        sched_tz: {S: 'Europe/Berlin'},
      },
    ],
    [
      'rpd=5@"0 9 * * MON-FRI; 0 12 1 JAN SUN"',
      {
        l_rpd_cp: {N: '5'},
        l_rpd_ra: {N: '0'},
        l_rpd_rp: {N: '1'},
        l_rpd_rsched: {S: '1m0h9w1-5;m0h12D1M1w7'},
        sched_tz: {S: 'UTC'},
      },
    ],
    [
      'session=200/5h!',
      {w_session_cp: {N: '200'}, w_session_ra: {N: '0'}, w_session_rp: {N: '1'}, w_session_rsa: {N: '18000'}},
    ],
    ['rpm=10/min,soft', {l_rpm_cp: {N: '10'}, l_rpm_ra: {N: '10'}, l_rpm_rp: {N: '60'}, l_rpm_soft: {BOOL: true}}],
    [
      'tpm=10/min,x0.1@"* 22,23 * * *",20/sec:30@"* 9-16 * * 1-5"',
      {
        l_tpm_cp: {N: '10'},
        l_tpm_ra: {N: '10'},
        l_tpm_rp: {N: '60'},
        l_tpm_sched: {S: '1h22,23s100;h9-16w1-5c30a20p1'},
        sched_tz: {S: 'UTC'},
      },
    ],
    [
      's=9/1h!,x2.3@"* * * * 7 Asia/Tokyo",soft',
      {
        w_s_cp: {N: '9'},
        w_s_ra: {N: '0'},
        w_s_rp: {N: '1'},
        w_s_rsa: {N: '3600'},
        w_s_sched: {S: '1w7s2300'},
        w_s_soft: {BOOL: true},
        sched_tz: {S: 'Asia/Tokyo'},
      },
    ],
    ['parallel=2k/inflight', {if_parallel: {N: '2000'}}],
    ['max_parallel_cp=1/inflight', {if_max_parallel_cp: {N: '1'}}],
  ])('stores %s, in the form of the Python system where it has one', (text, item) => {
    const limit = parseLimit(text)
    expect(encodeConfigLimits([limit])).toEqual(item)
    expect(read(item)).toEqual([limit])
    expect(withoutLimits({...item, other: {S: 'x'}, l_tpm_bx: {N: '1'}})).toEqual({
      other: {S: 'x'},
      l_tpm_bx: {N: '1'},
      ...(item.sched_tz && {sched_tz: item.sched_tz}),
    })
    const [details] = limitDetails([limit])
    expect(limitOfDetails(details ?? null)).toEqual(limit)
  })

  it('reads a quota with any stored period', () => {
    const item = {l_q_cp: {N: '10'}, l_q_ra: {N: '0'}, l_q_rp: {N: '60'}, l_q_rsched: {S: '1m0h0'}}
    expect(read(item)).toEqual([parseLimit('q=10/day@UTC')])
  })

  it('passes on a schedule of a newer client, and reads the other limits', () => {
    const item = {...encodeConfigLimits([parseLimit('a=1'), parseLimit('b=2/day@UTC')]), l_b_rsched: {S: '2m0h0?'}}
    const refused: string[] = []
    const limits = readConfigLimits(item, name => refused.push(name))
    expect([limits.map(({name}) => name), refused]).toEqual([['a'], ['b']])
  })

  it('knows attributes that belong to the other prefix of a name (G4)', () => {
    const session = encodeConfigLimits([parseLimit('s=5/1h!')])
    expect(['l_s_cp', 'l_s_bx', 'w_s_cp', 'l_t_cp'].map(name => isOtherForm(name, session))).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect(isOtherForm('w_s_rsa', encodeConfigLimits([parseLimit('s=5')]))).toBe(true)
    const slots = encodeConfigLimits([parseLimit('s=5/inflight')])
    expect(['l_s_cp', 'w_s_rsa', 'if_s', 'l_t_cp', 'if_t'].map(name => isOtherForm(name, slots))).toEqual([
      true,
      true,
      false,
      false,
      false,
    ])
    expect(isOtherForm('if_s', session)).toBe(true)
  })

  it('stores other limits alike beside an in-flight limit', () => {
    const texts = ['tpm=100/min:200', 'rpd=10k/day@UTC', 's=5/1h!']
    const {if_parallel: slots, ...others} = encodeConfigLimits(parseLimits([...texts, 'parallel=20/inflight']))
    expect([slots, others]).toEqual([{N: '20'}, encodeConfigLimits(parseLimits(texts))])
  })

  it('prefers the form that a client without in-flight limits has stored over the slots', () => {
    const written = encodeConfigLimits([parseLimit('parallel=5/min')])
    expect(read({...written, if_parallel: {N: '20'}})).toEqual([parseLimit('parallel=5/min')])
  })
})

import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type LimitsByLevel, resolveLimits} from '../../src/lib/core/limits/limit.js'
import {
  checkConfigResource,
  checkEntityId,
  checkLimitName,
  checkNamespaceName,
  checkResourceName,
  isNamespaceId,
  isTroublesomeForPython,
} from '../../src/lib/core/names.js'
import {durationMs, formatDuration, parseDuration} from '../../src/lib/core/text/duration.js'
import {parseWindowKey, WINDOWS, windowEndMs, windowKey, windowStart} from '../../src/lib/core/window.js'

describe('names', () => {
  it.each([
    [
      checkEntityId,
      ['user-1', 'a@b.c:d', '9', 'x'.repeat(256)],
      ['', '#a', 'a#b', '-a', 'a b', 'abc\n', 'x'.repeat(257), 'ü'],
    ],
    [
      checkResourceName,
      ['gpt-4', 'openai/gpt-4.1', 'llama3:8b', 'PKx'],
      ['', '4gpt', 'a#b', '_default_', 'abc\n', 'x'.repeat(65)],
    ],
    [checkLimitName, ['tpm', 'my-limit', 'a.b_c'], ['', '1a', 'a/b', 'a#b', 'abc\n', 'x'.repeat(65)]],
    [checkNamespaceName, ['default', 'team.a-1'], ['', '_', '-x', 'a/b', 'a b']],
  ])('%o', (check, good, bad) => {
    for (const name of good) expect(check(name)).toBe(name)
    for (const name of bad) expect(() => check(name), JSON.stringify(name)).toThrow('is not a valid')
  })

  it('rejects an id of a login provider and names the function that encodes it', () => {
    expect(() => checkEntityId('auth0|123')).toThrow(
      expect.objectContaining({hint: expect.stringContaining('encodeEntityId()')}),
    )
  })

  it('D-43 reserves names of attributes that records use', () => {
    for (const name of ['PK', 'SK', 'GSI1PK', 'GSI4SK', 'LSI3SK', 'ttl']) {
      expect(() => checkResourceName(name)).toThrow('reserved')
      expect(() => checkLimitName(name)).toThrow('reserved')
    }
    for (const name of ['window', 'resource', 'entity_id', 'window_start', 'total_events', 'wcu']) {
      expect(() => checkLimitName(name)).toThrow('reserved')
    }
  })

  it('D-17 accepts names with "-" and ".", which trouble the Python client', () => {
    expect(['tpm', 'my-limit', 'a.b', 'a_b'].map(isTroublesomeForPython)).toEqual([false, true, true, false])
  })

  it('accepts _default_ as a resource only in entity configuration', () => {
    expect(checkConfigResource('_default_')).toBe('_default_')
    expect(checkConfigResource('gpt-4')).toBe('gpt-4')
    expect(() => checkConfigResource('_other_')).toThrow('is not a valid')
  })

  it('treats namespace ids as opaque but never accepts the registry, a flag or a path', () => {
    expect(['aB3x_9QwErT', 'default', '_aB3x9QwErT', '_', '-B3x_9QwErT', 'a/b', ''].map(isNamespaceId)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
      false,
    ])
  })
})

describe('durations', () => {
  it.each([
    ['500ms', 500],
    ['2s', 2000],
    ['2sec', 2000],
    ['15min', 900_000],
    ['15m', 900_000],
    ['24h', 86_400_000],
    ['7d', 604_800_000],
    ['day', 86_400_000],
  ])('%s is %s ms', (text, ms) => expect(parseDuration(text)).toBe(ms))

  it.each(['', '5', '5x', '-5s', '1.5h', 's5', '99999999999999999d'])('rejects %o', text => {
    expect(() => parseDuration(text)).toThrow('is not a duration')
  })

  it.each(['0s', '0min', '00d'])('rejects %o as too short', text => {
    expect(() => parseDuration(text)).toThrow(`"${text}" is too short: a duration must be longer than 0.`)
  })

  it('are formatted so that they read back equal', () => {
    fc.assert(
      fc.property(fc.integer({min: 1, max: 10 ** 12}), ms => {
        expect(durationMs(formatDuration(ms))).toBe(ms)
      }),
    )
    expect([60_000, 90_000, 86_400_000, 1].map(formatDuration)).toEqual(['1min', '90sec', '1day', '1ms'])
  })
})

describe('resolution', () => {
  const limits = (name: string) => [{name, capacity: 1, refillAmount: 1, refillPeriodSeconds: 1}]
  const all: LimitsByLevel = {
    entity: limits('a'),
    entity_default: limits('b'),
    resource: limits('c'),
    system: limits('d'),
  }

  it.each<[string, LimitsByLevel, string | undefined]>([
    ['the most specific level', all, 'entity'],
    ['the entity default', {...all, entity: []}, 'entity_default'],
    ['the resource', {resource: all.resource ?? [], system: all.system ?? []}, 'resource'],
    ['the system', {entity: [], entity_default: [], resource: [], system: all.system ?? []}, 'system'],
    ['nothing', {entity: []}, undefined],
  ])('uses %s, as a whole', (_, configured, source) => {
    const resolved = resolveLimits(configured)
    expect(resolved?.source).toBe(source)
    expect(resolved?.limits).toBe(source && configured[source as keyof LimitsByLevel])
  })
})

describe('usage windows', () => {
  const midnight = Date.UTC(2024, 1, 1)

  it('start in UTC', () => {
    const at = Date.UTC(2024, 1, 29, 14, 59, 59, 999)
    expect(WINDOWS.map(window => windowStart(window, at))).toEqual([
      '2024-02-29T14:00:00Z',
      '2024-02-29T00:00:00Z',
      '2024-02-01T00:00:00Z',
    ])
  })

  it('D-11 have different keys for an hour, a day and a month that start together', () => {
    const keys = WINDOWS.map(window => windowKey(window, windowStart(window, midnight)))
    expect(keys).toEqual(['2024-02-01T00:00:00Z', '2024-02-01T00:00:00Z#daily', '2024-02-01T00:00:00Z#monthly'])
    expect(keys.map(parseWindowKey)).toEqual(WINDOWS.map(window => ({window, start: '2024-02-01T00:00:00Z'})))
  })

  it('D-11 never share a key, and contain their instants', () => {
    const anyInstant = fc.integer({min: 0, max: Date.UTC(2100, 0, 1)})
    fc.assert(
      fc.property(
        anyInstant,
        anyInstant,
        fc.constantFrom(...WINDOWS),
        fc.constantFrom(...WINDOWS),
        (a, b, windowA, windowB) => {
          const [startA, startB] = [windowStart(windowA, a), windowStart(windowB, b)]
          expect(windowKey(windowA, startA) === windowKey(windowB, startB)).toBe(
            windowA === windowB && startA === startB,
          )
          expect(Date.parse(startA) <= a && a < windowEndMs(windowA, startA)).toBe(true)
          expect(windowStart(windowA, windowEndMs(windowA, startA)) > startA).toBe(true)
        },
      ),
    )
  })
})

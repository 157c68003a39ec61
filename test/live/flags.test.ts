import {parse} from '@oclif/core/parser'
import {describe, expect, it} from 'vitest'
import {type WatchFlagValues, watchFlags, watchRequest} from '../../src/lib/live/flags.js'
import {SORT_KEYS} from '../../src/lib/live/model/model.js'

const DEFAULTS = {interval: '2s', sort: 'left', filter: ''}

describe('a watch', () => {
  it('by default shows all buckets, every two seconds, without a time limit', () => {
    expect(watchRequest(DEFAULTS)).toEqual({
      scope: {kind: 'namespace'},
      intervalMs: 2000,
      forMs: undefined,
      selection: {sort: 'left', reversed: false, filter: ''},
      isWhole: false,
    })
    expect(watchRequest({...DEFAULTS, all: true}).isWhole).toBe(true)
  })

  it('follows the flags', () => {
    expect(watchRequest({...DEFAULTS, resource: 'gpt-4', interval: '500ms', for: '1min'})).toMatchObject({
      scope: {kind: 'resource', resource: 'gpt-4'},
      intervalMs: 500,
      forMs: 60_000,
    })
    expect(watchRequest({...DEFAULTS, entity: 'ada', sort: 'rate', reverse: true, filter: '!x'})).toMatchObject({
      scope: {kind: 'entity', entity: 'ada'},
      selection: {sort: 'rate', reversed: true, filter: '!x'},
    })
  })

  it.each(SORT_KEYS)('can be sorted by %s in both directions', async sort => {
    const asked = async (...words: string[]) => {
      const {flags} = await parse(words, {flags: watchFlags, strict: true})
      return watchRequest(flags as unknown as WatchFlagValues).selection
    }
    expect(await asked('--sort', sort)).toEqual({sort, reversed: false, filter: ''})
    expect(await asked(`--sort=${sort}`, '--reverse')).toEqual({sort, reversed: true, filter: ''})
  })

  it('can last 24 days, because timers cannot count further', () => {
    expect(watchRequest({...DEFAULTS, for: '24d'}).forMs).toBeLessThan(2 ** 31)
  })

  it.each([
    [{interval: '499ms'}, 'watch.interval'],
    [{interval: '2h'}, 'watch.interval'],
    [{interval: 'soon'}, 'duration.syntax'],
    [{for: '0s'}, 'duration.syntax'],
    [{sort: 'colour'}, 'watch.sort'],
    [{filter: 'status:oevr'}, 'watch.filter'],
    [{filter: '!status:'}, 'watch.filter'],
    [{filter: 'resource:no spaces'}, 'name.invalid'],
    [{filter: 'entity:'}, 'name.invalid'],
    [{sort: '-rate'}, 'watch.sort'],
    [{for: '25d'}, 'watch.for'],
    [{resource: 'a#b'}, 'name.'],
    [{entity: ''}, 'name.'],
  ])('refuses %o: %s', (flags, code) => {
    expect(() => watchRequest({...DEFAULTS, ...flags})).toThrow(
      expect.objectContaining({code: expect.stringContaining(code), kind: 'usage'}),
    )
  })
})

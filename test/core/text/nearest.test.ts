import {describe, expect, it} from 'vitest'
import {didYouMean, editDistance, nearestNames, nearestPhrases} from '../../../src/lib/core/text/nearest.js'

describe('the edit distance', () => {
  it.each([
    ['help', 'help', 0],
    ['hlep', 'help', 1],
    ['hel', 'help', 1],
    ['helpp', 'help', 1],
    ['halp', 'help', 1],
    ['', 'help', 4],
    ['help', '', 4],
    ['kitten', 'sitting', 3],
    ['ca', 'abc', 3],
  ])('%s to %s is %i', (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance)
  })
})

describe('the nearest phrases', () => {
  const paths = ['help', 'limits', 'limits list', 'limits set', 'limits delete', 'local', 'local up', 'migrate status']
  const candidates = paths.map(path => ({words: path.split(' '), type: `zael ${path}`}))
  const suggest = (typed: string) => nearestPhrases(typed.split(' '), candidates)

  it.each([
    ['hlep', ['zael help']],
    ['limit list', ['zael limits list']],
    ['limits lst', ['zael limits list']],
    ['limit set gpt-4', ['zael limits set']],
    ['locl up', ['zael local up']],
    ['limits nonsense', ['zael limits']],
    ['nonsense', []],
    ['x', []],
    ['status', []],
  ])('of "%s" are %j', (typed, suggestions) => {
    expect(suggest(typed)).toEqual(suggestions)
  })
})

describe('the nearest names', () => {
  it('are at most three, all equally near', () => {
    const names = ['bar', 'car', 'far', 'tar']
    expect(nearestNames('aar', names)).toEqual(['bar', 'car', 'far'])
    expect(nearestNames('car', names)).toEqual(['car'])
    expect(nearestNames('nothing', names)).toEqual([])
  })

  it('are offered as a question', () => {
    expect(didYouMean(['bar', 'car'])).toBe('Did you mean "bar" or "car"?')
    expect(didYouMean([])).toBeUndefined()
  })
})

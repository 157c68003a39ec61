import {describe, expect, it} from 'vitest'
import {nearest} from '../../../src/lib/cli/output/suggest.js'
import {editDistance} from '../../../src/lib/core/edit-distance.js'

describe('editDistance', () => {
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

describe('nearest', () => {
  const paths = ['help', 'limits', 'limits list', 'limits set', 'limits delete', 'local', 'local up', 'migrate status']
  const candidates = paths.map(path => ({words: path.split(' '), type: `zael ${path}`}))
  const suggest = (typed: string) => nearest(typed.split(' '), candidates)

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
  ])('%s', (typed, suggestions) => {
    expect(suggest(typed)).toEqual(suggestions)
  })

  it('names at most three, all equally near', () => {
    const close = ['bar', 'car', 'far', 'tar'].map(word => ({words: [word], type: word}))
    expect(nearest(['aar'], close)).toEqual(['bar', 'car', 'far'])
    expect(nearest(['car'], close)).toEqual(['car'])
  })
})

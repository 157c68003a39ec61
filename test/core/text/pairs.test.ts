import {describe, expect, it} from 'vitest'
import {type PairProblem, readPairs, splitPair} from '../../../src/lib/core/text/text.js'

const refuse = (problem: PairProblem, {text}: {readonly text: string}) => new Error(`${problem}: ${text}`)

describe('a NAME=VALUE text', () => {
  it.each([
    ['a=b', '=', {name: 'a', value: 'b', valueAt: 2}],
    ['a=b=c', '=', {name: 'a', value: 'b=c', valueAt: 2}],
    ['a=', '=', {name: 'a', value: '', valueAt: 2}],
    ['a:b=c', '=', {name: 'a:b', value: 'c', valueAt: 4}],
    ['a:b=c', '=:', {name: 'a', value: 'b=c', valueAt: 2}],
  ])('splits %s at the first of "%s"', (text, separators, pair) => {
    expect(splitPair(text, separators, refuse)).toEqual({text, ...pair})
  })

  it.each([
    ['a', 'no-separator'],
    ['', 'no-separator'],
    ['=b', 'no-name'],
  ])('rejects "%s": %s', (text, problem) => {
    expect(() => splitPair(text, '=', refuse)).toThrow(`${problem}: ${text}`)
  })

  it('is rejected if its name was given before', () => {
    expect(readPairs(['a=1', 'b=1'], '=', refuse).map(({name}) => name)).toEqual(['a', 'b'])
    expect(() => readPairs(['a=1', 'b=1', 'a=2'], '=', refuse)).toThrow('duplicate: a=2')
  })
})

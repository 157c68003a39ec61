import {expect, it} from 'vitest'
import {readSources} from '../helpers/sources.js'
import {MUTANTS} from './mutation/mutants.js'
import {marksIn, plantFault} from './mutation/place.js'

const sources = readSources()

it.each(MUTANTS)('has a marked line for a planted fault: $inside, $what', mutant => {
  const {path, text} = plantFault(sources, mutant)
  expect(sources.find(file => file.path === path)?.text === text).toBe(false)
})

it('has a planted fault for every marked line', () => {
  expect(marksIn(sources).sort()).toEqual(MUTANTS.map(({what}) => what).sort())
})

it('rejects a mark that is missing, repeated, or in another function', () => {
  const file = {path: 'src/lib/core/a.ts', text: 'function a() {\n  // Planted fault: it breaks\n  return 1\n}\n'}
  const mutant = {what: 'it breaks', inside: 'a', change: ['1', '2']} as const
  expect(plantFault([file], mutant).text).toBe('function a() {\n  // Planted fault: it breaks\n  return 2\n}\n')
  expect(plantFault([file], {...mutant, change: undefined}).text).not.toContain('return')
  expect(() => plantFault([], mutant)).toThrow('"// Planted fault: it breaks" is in 0 files')
  expect(() => plantFault([file, file], mutant)).toThrow('in 2 files')
  expect(() => plantFault([file], {...mutant, inside: 'b'})).toThrow('is marked in a, not in b')
  expect(() => plantFault([file], {...mutant, change: ['3', '4']})).toThrow('no 3 in   return 1')
})

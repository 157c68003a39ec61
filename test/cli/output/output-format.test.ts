import {describe, expect, it} from 'vitest'
import {formatIn} from '../../../src/lib/cli/output/output-format.js'

describe('the requested output format', () => {
  it.each([
    ['', 'table'],
    ['--json', 'json'],
    ['--output json', 'json'],
    ['--output=yaml', 'yaml'],
    ['-o csv', 'csv'],
    ['-ocsv', 'csv'],
    ['-o=csv', 'csv'],
    ['--output yaml --json', 'json'],
    ['--output nonsense', 'table'],
    ['--output', 'table'],
    ['-- --json', 'table'],
    ['name -- --output json', 'table'],
    ['--only json', 'table'],
  ])('"%s" selects %s', (words, format) => {
    expect(formatIn(words.split(' '))).toBe(format)
  })

  it('is the preferred one when nothing is typed', () => {
    expect(formatIn([], 'yaml')).toBe('yaml')
    expect(formatIn(['-o', 'csv'], 'yaml')).toBe('csv')
  })
})

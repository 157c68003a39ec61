import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {CsvProblem, csvRecords} from '../../src/lib/files/csv.js'

const fieldsOf = (text: string): string[][] => Array.from(csvRecords(text), ({fields}) => [...fields])

describe('comma-separated values', () => {
  it('support quotes, quoted line breaks, and both line endings', () => {
    expect([...csvRecords('a,b\r\n"x, ""y""","1\n2"\n\n ,\nlast,')]).toEqual([
      {line: 1, fields: ['a', 'b']},
      {line: 2, fields: ['x, "y"', '1\n2']},
      {line: 6, fields: ['last', '']},
    ])
    expect(fieldsOf('')).toEqual([])
  })

  it('may have a quoted field of 20 MB', () => {
    const long = `${'x'.repeat(10_000_000)}${'"'.repeat(100_000)}${'y'.repeat(10_000_000)}`
    const [[first, second] = []] = fieldsOf(`"${long.replaceAll('"', '""')}",1\n`)
    expect(first === long).toBe(true)
    expect(second).toBe('1')
  })

  it('may be separated by semicolons', () => {
    expect(fieldsOf('id;name\nu1;a, b\n')).toEqual([
      ['id', 'name'],
      ['u1', 'a, b'],
    ])
    expect(fieldsOf('id,a;b\n1,2')).toEqual([
      ['id', 'a;b'],
      ['1', '2'],
    ])
  })

  it.each([
    ['a,b\n"open,1\n2', 2, 'not closed'],
    ['a\nx"y', 2, 'inside a field'],
    ['a\n"x"y', 2, 'text follows a closing quote'],
  ])('refuse %j with its line', (text, line, message) => {
    const problem = (): unknown => {
      try {
        return fieldsOf(text)
      } catch (error) {
        return error
      }
    }
    expect(problem()).toBeInstanceOf(CsvProblem)
    expect(problem()).toMatchObject({line, message: expect.stringContaining(message)})
  })

  it('parse back as written, whatever they contain', () => {
    const cell = fc.string({unit: fc.constantFrom('a', ',', '"', '\n', '\r\n', ';', ' ')})
    const rows = fc.array(fc.tuple(fc.constant('id'), cell, cell), {minLength: 1})
    fc.assert(
      fc.property(rows, records => {
        const text = records.map(fields => fields.map(each => `"${each.replaceAll('"', '""')}"`).join(',')).join('\n')
        expect(fieldsOf(text)).toEqual(records)
      }),
    )
  })
})

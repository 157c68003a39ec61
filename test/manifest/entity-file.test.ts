import {describe, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../src/lib/core/names.js'
import {parseEntityFile} from '../../src/lib/manifest/entity-file.js'

const csv = (...lines: string[]) => parseEntityFile(lines.join('\n'), 'csv', {file: 'list.csv'})
const jsonl = (...lines: string[]) => parseEntityFile(lines.join('\n'), 'jsonl', {file: 'list.jsonl'})

const problemsOf = (parse: () => unknown): string[] => {
  try {
    parse()
  } catch (error) {
    const {details} = error as {details: {problems: {line: number; path: string; message: string}[]}}
    return details.problems.map(({line, path, message}) => `${line} ${path} ${message}`.replaceAll('  ', ' '))
  }
  throw new Error('nothing was refused')
}

describe('a list of entities', () => {
  it('is CSV with columns in any order, or one JSON object per line', () => {
    const scopes = new Map([
      [DEFAULT_RESOURCE, {limits: parseLimits(['rpm=60', 'tpm=10k/min']), policies: {}}],
      ['gpt-4', {limits: parseLimits(['rpd=5@"0 9 * * 1-5"']), policies: {}}],
    ])
    const expected = new Map([
      ['team', {scopes: new Map()}],
      ['u1', {name: 'Ann, "A"', parent: 'team', cascade: true, metadata: {plan: 'gold'}, scopes}],
    ])
    const fromCsv = csv(
      'parent,id,name,cascade,metadata.plan,limits,limits.gpt-4',
      ',team,,,,,',
      'team,u1,"Ann, ""A""",yes,gold,rpm=60 tpm=10k/min,"rpd=5@""0 9 * * 1-5"""',
    )
    expect(fromCsv).toEqual(expected)
    const fields = {name: 'Ann, "A"', parent: 'team', cascade: true, metadata: {plan: 'gold'}}
    const limits = {limits: {rpm: '60', tpm: '10k/min'}, resources: {'gpt-4': {limits: {rpd: '5@"0 9 * * 1-5"'}}}}
    expect(jsonl('{"id": "team"}', '', JSON.stringify({id: 'u1', ...fields, ...limits}))).toEqual(expected)
  })

  it('is refused as a whole, with every mistake and its line', () => {
    const mistakes = problemsOf(() =>
      csv(
        'id,cascade,limits,parent',
        'a|b,maybe,rpm,',
        ',,,',
        'u1,,rpm=1 rpm=2,',
        'u1,,rpm=fast,',
        ',yes,,',
        'u2,,,,too much',
      ),
    )
    expect(mistakes).toEqual([
      '2 limits "rpm" is not a limit such as rpm=60',
      expect.stringMatching(/^2 id "a\|b" must be written as `x--a__7cb`$/),
      expect.stringMatching(/^2 cascade must be true or false/),
      expect.stringMatching(/^2 limits no limits are given/),
      '4 limits the limit "rpm" is given twice',
      expect.stringMatching(/^5 limits.rpm /),
      '6 id the id is missing',
      '7 has 5 fields for 4 columns',
    ])
    expect(problemsOf(() => csv('name', 'x'))).toEqual([
      '1 the column "id" is missing; the first line names the columns',
    ])
    expect(problemsOf(() => csv('id,nam,id', 'x'))).toEqual([
      '1 "nam" is not a column; did you mean "name"?',
      '1 the column "id" is given twice',
    ])
    expect(problemsOf(() => csv('id,parent', 'a,b', 'b,a'))).toEqual(['2 parent the parents form a cycle: a → b → a'])
    expect(problemsOf(() => csv('id', 'a', 'a'))).toEqual(['3 id "a" is already in line 2'])
    expect(problemsOf(() => jsonl('{"id": "a"', '[]', '{"id": "b", "colour": 1}'))).toEqual([
      expect.stringMatching(/^1 is not JSON/),
      '2 a line must be an object such as {"id": "user-1"}',
      expect.stringMatching(/^3 colour "colour" is not a key here/),
    ])
    expect(() => csv('id', '')).toThrow('list.csv has no entities')
  })

  it('refuses a key that a JSON object has twice', () => {
    const lines = [
      '{"id": "a", "limits": {"rpm": "60/min", "r\\u0070m" : "900/min"}}',
      '{"id": "b", "name": "\\"id\\": ", "metadata": {"k": [{"k": 1}, {"k": "k"}]}}',
      '{"id": "c", "id": "d", "metadata": {"list": [{"x": 1, "x": 2}]}}',
    ]
    expect(problemsOf(() => jsonl(...lines))).toEqual([
      '1 limits.rpm "rpm" is given twice',
      '3 id "id" is given twice',
      '3 metadata.list.x "x" is given twice',
    ])
  })

  it('reads a cell of 10 MB, whatever its column', () => {
    const long = 'x'.repeat(10_000_000)
    expect(csv('id,name,metadata.plan', `a,"${long}",${long}`).get('a')).toMatchObject({
      name: long,
      metadata: {plan: long},
    })
    const [problem] = problemsOf(() => csv('id,limits', `a,"rpm=60 ${long} ""a b"""`))
    expect(problem?.replace(long, 'X')).toBe('2 limits "X" is not a limit such as rpm=60')
  })

  it('compares 100,000 columns without comparing each with every other', () => {
    const names = Array.from({length: 100_000}, (_, at) => `metadata.c${at}`)
    expect(problemsOf(() => csv(['id', ...names, 'metadata.c7'].join(','), 'a'))).toEqual([
      '1 the column "metadata.c7" is given twice',
    ])
  })

  it('reports equal problems once, with their lines and their number', () => {
    const rows = Array.from({length: 52}, (_, at) => (at === 30 ? 'good,rpm=1/min' : `c${at},rpm=1/fortnight`))
    const why = 'limits.rpm: the period "fortnight" is not one of sec, min, hour, day, with an optional count'
    expect(() => csv('id,limits', ...rows, ',rpm=1/min')).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(
          /^The file has 52 problems:\n {2}list\.csv:2-31,33-53 limits\.rpm: .* \(51 times\)\n {2}list\.csv:54:1 id: .*$/,
        ),
      }),
    )
    expect(() => csv('id,limits', ...rows)).toThrow(why)
    expect(() => csv('id,limits', 'a,rpm=1/fortnight')).toThrow(`list.csv:2:1 ${why}`)
  })
})

import {describe, expect, it} from 'vitest'
import {bucketMarksOf, copyMarkOf, usageMarksOf} from '../../../src/lib/migrate/records/marks.js'
import {type AttributeValue, s} from '../../../src/lib/schema/attribute-value.js'
import {encodeCopyMark, encodeUsageMarks, MIGRATION_MARK} from '../../../src/lib/schema/migration-marks.js'

const item = (mark: AttributeValue) => ({PK: s('ns/ENTITY#a'), SK: s('#USAGE#r'), [MIGRATION_MARK]: mark})

describe('the migration mark of an item', () => {
  it('decodes to the same value, or to none', () => {
    const usage = {'': {counters: {rpm: 7, total_events: -1}, hours: 3}, ns2: {counters: {}, hours: 0}}
    expect(usageMarksOf(item(s(encodeUsageMarks(usage))))).toEqual(usage)
    expect(copyMarkOf(item(s(encodeCopyMark({source: 'a-_1', copy: 'b'}))))).toEqual({source: 'a-_1', copy: 'b'})
    expect([bucketMarksOf(undefined).size, usageMarksOf({}), copyMarkOf({})]).toEqual([0, {}, undefined])
  })

  it('keeps additions of a newer version to a share', () => {
    const newer = {ns: {counters: {rpm: 1}, hours: 1, zone: 'utc'}}
    expect(usageMarksOf(item(s(JSON.stringify(newer))))).toEqual(newer)
  })

  it.each([
    [bucketMarksOf, s(''), 'it is empty'],
    [bucketMarksOf, s('{"rpm": {"a": ["1"'), 'it is not JSON'],
    [bucketMarksOf, s('[]'), 'expected record'],
    [bucketMarksOf, s('{"rpm": {"a": ["1", "2"]}}'), 'rpm.a: expected three or six figures of a bucket.'],
    [bucketMarksOf, s('{"rpm": {"a": ["1", 2, 3]}}'), 'rpm.a'],
    [bucketMarksOf, s('{"rpm": {"a": ["1", "0x10", 3]}}'), 'rpm.a'],
    [bucketMarksOf, s('{"rpm": {"a": ["1", "2", 3, "4"]}}'), 'rpm.a'],
    [bucketMarksOf, s('{"rpm": {"a": ["1", "2", 1e300]}}'), 'rpm.a'],
    [bucketMarksOf, {N: '7'}, 'expected text'],
    [usageMarksOf, s('{"ns": {"counters": {"rpm": "7"}, "hours": 1}}'), 'ns.counters.rpm: '],
    [usageMarksOf, s('{"ns": {"counters": {}}, "other": 1}'), 'ns.hours: .*; other: '],
    [usageMarksOf, s('null'), 'expected record'],
    [copyMarkOf, s('one'), 'expected two digests'],
    [copyMarkOf, s('a.b.c'), 'expected two digests'],
    [copyMarkOf, {BOOL: true}, 'expected string'],
  ])('is an error when it is damaged, never counted as none: %#', (read, mark, problem) => {
    expect(() => read(item(mark))).toThrow(
      expect.objectContaining({
        code: 'migrate.mark',
        kind: 'failed',
        message: expect.stringMatching(`^The migration mark of ns/ENTITY#a #USAGE#r is damaged: .*${problem}`),
        details: {key: 'ns/ENTITY#a #USAGE#r', attribute: MIGRATION_MARK},
      }),
    )
  })
})

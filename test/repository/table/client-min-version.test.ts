import {describe, expect, it} from 'vitest'
import {checkCompatibility} from '../../../src/lib/repository/table/version-compatibility.js'
import type {VersionRecord} from '../../../src/lib/schema/version-record.js'

/**
 * The least client version of a table was stored and never looked at, and the version of the package was compared with
 * the version of the layout, which are counted by different people.
 */
describe('D-45 the minimum client version of a table', () => {
  const table = (clientMinVersion: string, updatedBy: string | undefined): VersionRecord => ({
    schemaVersion: '0.9.0',
    lambdaVersion: undefined,
    clientMinVersion,
    updatedAt: '',
    updatedBy,
  })

  it.each([
    ['0.2.0', '0.1.9'],
    ['0.1.1', '0.1.0'],
    ['1.0.0', '0.99.99'],
  ])('%s is enforced against %s when zael wrote it', (least, ours) => {
    expect(() => checkCompatibility(table(least, 'zael:1.0.0'), ours, false)).toThrow(
      expect.objectContaining({code: 'schema.client-too-old', exitCode: 5}),
    )
  })

  it.each([
    ['0.0.0', '0.1.0'],
    ['0.1.0', '0.1.0'],
    ['0.2.0', '0.10.0'],
  ])('%s lets %s work', (least, ours) => {
    expect(() => checkCompatibility(table(least, 'zael:1.0.0'), ours, false)).not.toThrow()
  })

  it.each(['client:0.10.3', 'cli:0.10.3', undefined])('does not count for zael when %s wrote it', by => {
    expect(() => checkCompatibility(table('0.10.0', by), '0.1.0', false)).not.toThrow()
  })

  it('zael 1.x works on layout 0.x: the two are not compared', () => {
    expect(() => checkCompatibility(table('0.0.0', 'zael:1.2.0'), '1.2.0', false)).not.toThrow()
  })
})

import {describe, expect, it} from 'vitest'
import {checkCompatibility, recordedRelease} from '../../../src/lib/repository/table/version-compatibility.js'
import type {VersionRecord} from '../../../src/lib/schema/version-record.js'

/**
 * The least client version of a table was stored and never looked at, and the version of the package was compared with
 * the version of the layout, which are counted by different people.
 */
describe('D-45, G0 the minimum client version of a table', () => {
  const table = (clientMinVersion: string, updatedBy: string | undefined): VersionRecord => ({
    schemaVersion: '0.10.0',
    lambdaVersion: undefined,
    clientMinVersion,
    updatedAt: '',
    updatedBy,
  })

  it.each(['client:0.18.0', 'cli:0.18.0', 'zael:0.1.0', undefined])(
    'above the release that zael reads refuses the table, whatever wrote the record (%s)',
    by => {
      expect(() => checkCompatibility(table('0.18.0', by), '9.9.9', false)).toThrow(
        expect.objectContaining({
          code: 'schema.client-too-old',
          kind: 'conflict',
          message: expect.stringMatching(/requires zae-limiter 0\.18\.0 .* this zael \(9\.9\.9\) reads records up to/),
        }),
      )
    },
  )

  it.each(['0.0.0', '0.10.0', '0.15.0', '0.16.0', '0.17.0'])('%s lets every version of zael work', least => {
    for (const ours of ['0.1.0', '1.2.0', undefined])
      expect(() => checkCompatibility(table(least, 'zael:1.0.0'), ours, false)).not.toThrow()
  })

  it('names the release whose records the table has at least', () => {
    expect(recordedRelease(table('0.17.0', undefined))).toBe('0.17.0')
    expect(recordedRelease(table('0.0.0', undefined))).toBe('0.10.0')
  })
})

import {describe, expect, it} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import {ensureVersion, markAggregator, readVersion} from '../../../src/lib/repository/table/version.js'
import {AGGREGATOR_MARK, checkCompatibility} from '../../../src/lib/repository/table/version-compatibility.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {encodeVersion, type VersionRecord} from '../../../src/lib/schema/version-record.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant, put, stored} from '../namespace-table.js'

const record = (schemaVersion: string, rest: Partial<VersionRecord> = {}): VersionRecord => ({
  schemaVersion,
  lambdaVersion: undefined,
  clientMinVersion: '0.0.0',
  updatedAt: '2026-06-01T00:00:00Z',
  updatedBy: 'client:0.10.3',
  ...rest,
})

const verdict = (stored: VersionRecord | undefined, ours = '0.1.0', hasLegacyRecord = false): string => {
  try {
    checkCompatibility(stored, ours, hasLegacyRecord)
    return 'fine'
  } catch (error) {
    return (error as {code: string}).code
  }
}

describe('compatibility', () => {
  it.each([
    ['0.9.0', 'fine'],
    ['0.9.7', 'fine'],
    ['0.10.0', 'fine'],
    ['v0.10.3', 'fine'],
    ['0.10.0.dev4', 'fine'],
    ['0.7.0', 'schema.needs-migration'],
    ['0.8.0', 'schema.needs-migration'],
    ['0.8.99', 'schema.needs-migration'],
    ['0.11.0', 'schema.too-new'],
    ['1.0.0', 'schema.too-new'],
    ['1.9.0', 'schema.too-new'],
    ['', 'schema.unreadable'],
    ['latest', 'schema.unreadable'],
    ['0.9', 'schema.unreadable'],
  ])('layout %j: %s', (schemaVersion, expected) => expect(verdict(record(schemaVersion))).toBe(expected))

  it('treats a table without a record as a new one, unless it has the record of an old one', () => {
    expect(verdict(undefined)).toBe('fine')
    expect(verdict(undefined, '0.1.0', true)).toBe('schema.needs-migration')
  })

  it('lets a migrated table keep its old record', () => {
    expect(verdict(record('0.9.0'), '0.1.0', true)).toBe('fine')
    expect(verdict(record('0.8.0'), '0.1.0', true)).toBe('schema.needs-migration')
  })

  it('names the remedy, with the exit code of a conflict', () => {
    expect(() => checkCompatibility(record('0.8.0'), '0.1.0', false)).toThrow(
      expect.objectContaining({kind: 'conflict', hint: 'Migrate the table.'}),
    )
  })
})

describeOnEngine('the version record', () => {
  describe('of a new table', () => {
    const table = useTable()

    it('is written once by concurrent clients, and a lost response changes nothing', async () => {
      const tenant = newTenant(table)
      expect(await readVersion(tenant)).toEqual({record: undefined, hasLegacyRecord: false})
      let losses = 1
      tenant.transport.after = operation => {
        if (operation === 'PutItem' && losses-- > 0) throw new Unavailable(operation, true)
      }
      const answers = await Promise.all(
        ['zael:0.1.0', 'zael:0.2.0', 'zael:0.3.0'].map(by => ensureVersion(tenant, {by})),
      )
      const {record: kept} = await readVersion(tenant)
      expect(kept).toMatchObject({schemaVersion: '0.9.0', lambdaVersion: AGGREGATOR_MARK, clientMinVersion: '0.0.0'})
      expect(answers).toEqual([kept, kept, kept])
      expect(await stored(tenant, keys.version())).toEqual({
        PK: s('_/SYSTEM#'),
        SK: s('#VERSION'),
        schema_version: s('0.9.0'),
        lambda_version: s('0.17.999-zael'),
        client_min_version: s('0.0.0'),
        updated_at: s('2027-01-15T08:00:00Z'),
        updated_by: s(kept?.updatedBy as string),
        GSI4PK: s('_'),
        GSI4SK: s('_/SYSTEM#'),
      })
    })
  })

  describe('of a table that another client uses', () => {
    const table = useTable()

    it('stays unchanged, and nothing is written', async () => {
      const tenant = newTenant(table)
      const theirs = record('0.10.0', {lambdaVersion: '0.10.3'})
      await put(tenant, {...encodeVersion(theirs), extra: s('kept')})
      const before = await stored(tenant, keys.version())
      tenant.transport.calls.length = 0
      expect(await ensureVersion(tenant, {by: 'zael:0.1.0'})).toEqual(theirs)
      expect(tenant.transport.calls).toEqual(['BatchGetItem'])
      expect(await stored(tenant, keys.version())).toEqual(before)
    })
  })

  describe("of a table whose stream zael's aggregator processes from now on", () => {
    const table = useTable()

    it('gets the mark once, and keeps its other attributes', async () => {
      const tenant = newTenant(table)
      expect(await markAggregator(tenant)).toBe(false)
      expect(await stored(tenant, keys.version())).toBeUndefined()
      for (const lambdaVersion of [undefined, '0.10.3', '0.18.0']) {
        const before = {...encodeVersion(record('0.10.0', {lambdaVersion})), extra: s('kept')}
        await put(tenant, before)
        tenant.transport.calls.length = 0
        expect(await markAggregator(tenant)).toBe(true)
        expect(await markAggregator(tenant)).toBe(false)
        // The function may do no more than these.
        expect(tenant.transport.calls).toEqual(['BatchGetItem', 'UpdateItem', 'BatchGetItem'])
        expect(await stored(tenant, keys.version())).toEqual({...before, lambda_version: s(AGGREGATOR_MARK)})
      }
    })
  })

  describe('of a table from before namespaces', () => {
    const table = useTable()

    it('is found, and no new one is written', async () => {
      const tenant = newTenant(table)
      await put(tenant, {PK: s('SYSTEM#'), SK: s('#VERSION'), schema_version: s('1.0.0')})
      expect(await readVersion(tenant)).toEqual({record: undefined, hasLegacyRecord: true})
      await expect(ensureVersion(tenant, {by: 'zael:0.1.0'})).rejects.toMatchObject({code: 'schema.needs-migration'})
      expect(await stored(tenant, keys.version())).toBeUndefined()
    })
  })
})

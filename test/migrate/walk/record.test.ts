import {describe, expect, it} from 'vitest'
import {surveyTable} from '../../../src/lib/migrate/survey.js'
import {decodeMigration} from '../../../src/lib/migrate/walk/lease.js'
import {type AttributeValue, type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {attributes} from '../../../src/lib/schema/attributes.js'
import {encodeMigration, type MigrationRecord} from '../../../src/lib/schema/migration-record.js'
import {describeOnEngine} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

const names = attributes.migration

const record: MigrationRecord = {
  runId: 'run-1',
  owner: 'alice@one',
  leaseUntilMs: 1_700_000_000_000,
  step: 'data',
  position: {PK: 'ns/ENTITY#a', SK: '#META'},
  pass: 2,
  passWrites: 7,
  counts: {data: {checked: 3, written: 2, expired: 1, conflicts: 0}},
  startedAt: '2026-01-01T00:00:00Z',
  finishedAt: undefined,
  earlierFinishedAt: '2025-01-01T00:00:00Z',
  failure: undefined,
  verifiedAt: undefined,
}

const changed = (change: Record<string, AttributeValue>): Item => ({...encodeMigration(record), ...change})

describe('the migration record', () => {
  it('decodes to the same value', () => {
    expect(decodeMigration(encodeMigration(record))).toEqual(record)
  })

  it('may have more or fewer attributes in another version', () => {
    const {[names.passWrites]: _, [names.pass]: __, [names.counts]: ___, ...older} = encodeMigration(record)
    expect(decodeMigration(older)).toEqual({...record, pass: 1, passWrites: 0, counts: {}})
    expect(decodeMigration(changed({future: s('x')}))).toEqual(record)
  })

  it.each([
    [{[names.position]: s('')}, 'position: it is empty'],
    [{[names.position]: s('["a"')}, 'position: it is not JSON'],
    [{[names.position]: s('["a"]')}, 'position: '],
    [{[names.position]: s('{"PK": 1}')}, 'position: '],
    [{[names.counts]: s('{"data": 5}')}, 'counts.data: '],
    [
      {[names.counts]: s('{"data": {"checked": -1, "written": 1, "expired": 0, "conflicts": 0}}')},
      'counts.data.checked',
    ],
    [{[names.leaseUntil]: {N: '1e30'}}, 'leaseUntilMs: '],
    [{[names.leaseUntil]: s('soon')}, 'leaseUntilMs: '],
    [{[names.finishedAt]: n(1)}, 'finishedAt: '],
    [{[names.runId]: s('')}, 'runId: '],
    [{[names.pass]: n(0), [names.step]: n(1)}, 'step: .*; pass: '],
  ])('is an error when it is damaged, with all its problems: %#', (change, problem) => {
    expect(() => decodeMigration(changed(change as Record<string, AttributeValue>))).toThrow(
      expect.objectContaining({
        code: 'migrate.record',
        kind: 'failed',
        message: expect.stringMatching(`^The migration record is damaged: .*${problem}`),
      }),
    )
  })
})

describeOnEngine('a table whose migration record is unusable', () => {
  const scene = useOldTable(3, population => itemsOf(3, population))
  const put = (item: Item) => scene.table.transport.send('PutItem', {TableName: scene.table.name, Item: item})

  it('is neither migrated nor surveyed while the record is damaged', async () => {
    await put(changed({[names.position]: s('["ns/')}))
    await expect(scene.migrate()).rejects.toMatchObject({code: 'migrate.record'})
    await expect(surveyTable(scene.table, {ourVersion: '0.1.0'})).rejects.toMatchObject({code: 'migrate.record'})
  })

  it('is not migrated from a step of a newer zael, and its record is not changed', async () => {
    const newer = changed({[names.step]: s('compact'), [names.leaseUntil]: n(0), future: s('x')})
    await put(newer)
    await expect(scene.migrate()).rejects.toMatchObject({
      code: 'migrate.step',
      kind: 'conflict',
      message: 'The migration stopped in step "compact", which this version of zael does not know.',
    })
    expect(await scene.items()).toContainEqual(newer)
  })
})

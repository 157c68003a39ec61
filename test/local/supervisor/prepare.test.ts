import {randomBytes, randomUUID} from 'node:crypto'
import {afterAll, expect, inject, it} from 'vitest'
import {sleepMs} from '../../../src/lib/dynamo/retry.js'
import {createTable, loadTableDefinition} from '../../../src/lib/dynamo/table-definition.js'
import {localTransport} from '../../../src/lib/local/engines/transport.js'
import {prepareStack} from '../../../src/lib/local/supervisor/prepare.js'
import {readResourceIndex} from '../../../src/lib/repository/table/table.js'
import {readVersion} from '../../../src/lib/repository/table/version.js'
import {AGGREGATOR_MARK} from '../../../src/lib/repository/table/version-compatibility.js'
import {readRollups} from '../../../src/lib/repository/usage/sum.js'
import {encodeVersion, type VersionRecord} from '../../../src/lib/schema/version-record.js'
import {describeOnEngine} from '../../helpers/table.js'

describeOnEngine('the table of a local stack', () => {
  const transport = localTransport(inject('engineEndpoint'))
  const backoff = {random: Math.random, sleep: sleepMs}
  const table = {name: `test-${randomUUID()}`, transport, clock: Date.now, randomBytes, backoff}
  afterAll(async () => {
    await transport.send('DeleteTable', {TableName: table.name})
    await transport.close()
  })

  it('gets the requested resource index, and keeps it', async () => {
    expect(await prepareStack(table, '0.1.0', {resourceIndex: 'ALL'})).toEqual({created: true})
    expect(await readResourceIndex(table)).toBe('ALL')
    expect(await prepareStack(table, '0.1.0')).toEqual({created: false})
    expect(await prepareStack(table, '0.1.0', {resourceIndex: 'ALL'})).toEqual({created: false})
    await expect(prepareStack(table, '0.1.0', {resourceIndex: 'KEYS_ONLY'})).rejects.toMatchObject({
      code: 'local.other-index',
      kind: 'conflict',
    })
    expect(await readResourceIndex(table)).toBe('ALL')
  })

  it('L4 rolls up usage from the first request', async () => {
    await prepareStack(table, '0.1.0')
    const since = [expect.stringMatching(/^\d{4}-\d\d-01T00:00:00Z$/)]
    expect((await readRollups(table)).switches).toEqual({daily: since, monthly: since})
  })

  it('L4 leaves the roll-up of a table with records to its aggregator', async () => {
    const used = {...table, name: `test-${randomUUID()}`}
    await createTable(transport, await loadTableDefinition({tableName: used.name}))
    const Item = {PK: {S: 'others/ENTITY#user'}, SK: {S: '#USAGE#gpt-4#2026-01-01T00:00:00Z#daily'}}
    await transport.send('PutItem', {TableName: used.name, Item})
    await prepareStack(used, '0.1.0')
    expect((await readRollups(used)).switches).toEqual({daily: [], monthly: []})
    await transport.send('DeleteTable', {TableName: used.name})
  })

  it('gets the mark of the aggregator that starts now when an older zael made it', async () => {
    await prepareStack(table, '0.1.0')
    const {record} = await readVersion(table)
    const older = encodeVersion({...(record as VersionRecord), lambdaVersion: undefined})
    await transport.send('PutItem', {TableName: table.name, Item: older})
    await prepareStack(table, '0.1.0')
    expect((await readVersion(table)).record).toEqual({...record, lambdaVersion: AGGREGATOR_MARK})
  })
})

import {randomBytes, randomUUID} from 'node:crypto'
import {afterAll, beforeAll, expect, inject, it} from 'vitest'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {sleepMs} from '../../src/lib/dynamo/retry.js'
import {loadTableDefinition} from '../../src/lib/dynamo/table-definition.js'
import {createTransport} from '../../src/lib/dynamo/transports/create.js'
import {migrateTable} from '../../src/lib/migrate/run.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import type {Table} from '../../src/lib/repository/table/table.js'
import {ensureVersion} from '../../src/lib/repository/table/version.js'
import {describeOnEngine, PATIENT_MS} from '../helpers/table.js'

// "Restoring a lost table" in docs/operations.md relies on this. AWS restores only data and indexes.
describeOnEngine('a restored table', {timeout: PATIENT_MS}, () => {
  const name = `restored-${randomUUID()}`
  const connection = resolveConnection({endpointUrl: inject('engineEndpoint')}, {})
  const patience = {connectTimeoutMs: PATIENT_MS, requestTimeoutMs: PATIENT_MS}
  const transport = createTransport({connection, clock: Date.now, ...patience})
  const table: Table = {name, transport, clock: Date.now, randomBytes, backoff: {random: Math.random, sleep: sleepMs}}

  beforeAll(async () => {
    const {create} = await loadTableDefinition({tableName: name, stream: false})
    await transport.send('CreateTable', create)
    await ensureVersion(table, {by: 'zael:0.1.0'})
    await new Namespaces(table).register(DEFAULT_NAMESPACE)
  }, PATIENT_MS)

  afterAll(async () => {
    await transport.send('DeleteTable', {TableName: name})
    await transport.close()
  })

  it('gets its stream and expiry from a migration that moves no records', async () => {
    const {added, steps} = await migrateTable(table, {owner: 'test', ourVersion: '0.1.0'})
    expect(added).toEqual(['stream', 'expiry'])
    // It counts the two parts; no record is among them.
    expect(steps.filter(({written}) => written > 0)).toMatchObject([{id: 'indexes', written: 2, checked: 0}])
    const {Table: after} = await transport.send('DescribeTable', {TableName: name})
    expect(after?.StreamSpecification).toMatchObject({StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES'})
    const {TimeToLiveDescription: expiry} = await transport.send('DescribeTimeToLive', {TableName: name})
    expect(expiry).toMatchObject({AttributeName: 'ttl', TimeToLiveStatus: expect.stringMatching(/^ENABL/)})
  })
})

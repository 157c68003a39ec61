import {randomUUID} from 'node:crypto'
import {expect, inject, it} from 'vitest'
import {CapacityMeter, meteredTransport} from '../../src/lib/dynamo/capacity.js'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {createTransport} from '../../src/lib/dynamo/transports/create.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

describeOnEngine('a metered transport', () => {
  const {name: TableName} = useTable()
  const Key = {PK: {S: randomUUID()}, SK: {S: '#'}}

  it('measures the cost of requests through a transport that does not meter', async () => {
    const connection = resolveConnection({endpointUrl: inject('engineEndpoint')}, {})
    const inner = createTransport({connection, clock: Date.now})
    const meter = new CapacityMeter()
    const transport = meteredTransport(inner, meter)
    await transport.send('GetItem', {TableName, Key, ConsistentRead: true})
    expect(meter.snapshot()).toMatchObject({calls: 1, read: 1, write: 0})
    await transport.send('DescribeTable', {TableName})
    expect(meter.snapshot()).toMatchObject({calls: 2, read: 1})
    await expect(transport.send('GetItem', {TableName: 'no-such-table', Key})).rejects.toThrow()
    expect(meter.snapshot()).toMatchObject({calls: 3, read: 1})
    await inner.close()
  })
})

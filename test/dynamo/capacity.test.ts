import type {ConsumedCapacity} from '@aws-sdk/client-dynamodb'
import {describe, expect, test} from 'vitest'
import {CapacityMeter} from '../../src/lib/dynamo/capacity.js'
import type {Operation, ResponseInfo} from '../../src/lib/dynamo/transport.js'

const response = (operation: Operation, ...capacity: ConsumedCapacity[]): ResponseInfo => ({
  operation,
  sentAtMs: 0,
  receivedAtMs: 0,
  serverDateMs: undefined,
  capacity,
})

const indexed: ConsumedCapacity = {
  TableName: 't',
  CapacityUnits: 3,
  Table: {CapacityUnits: 1},
  GlobalSecondaryIndexes: {GSI1: {CapacityUnits: 1.5}, GSI2: {CapacityUnits: 0.5}},
}

describe('the meter', () => {
  test('separates reads from writes by the operation', () => {
    const meter = new CapacityMeter()
    meter.observe(response('UpdateItem', indexed))
    meter.observe(response('Query', {TableName: 't', CapacityUnits: 0.5, Table: {CapacityUnits: 0.5}}))
    expect(meter.snapshot()).toEqual({calls: 2, read: 0.5, write: 3})
  })

  test('uses both numbers of a transaction, over several tables', () => {
    const meter = new CapacityMeter()
    const units = (read: number, write: number) => ({ReadCapacityUnits: read, WriteCapacityUnits: write})
    meter.observe(
      response(
        'TransactWriteItems',
        {TableName: 'a', CapacityUnits: 5, ...units(1, 4), Table: {CapacityUnits: 5, ...units(1, 4)}},
        {TableName: 'b', CapacityUnits: 2, ...units(0, 2), Table: {CapacityUnits: 2, ...units(0, 2)}},
      ),
    )
    expect(meter.snapshot()).toEqual({calls: 1, read: 1, write: 6})
  })

  test('counts calls without a known cost', () => {
    const meter = new CapacityMeter()
    meter.observe(response('ListTables'))
    expect(meter.snapshot()).toEqual({calls: 1, read: 0, write: 0})
  })

  test('keeps a snapshot unchanged, and a difference contains only later requests', () => {
    const meter = new CapacityMeter()
    meter.observe(response('UpdateItem', indexed))
    meter.observe(response('GetItem', {TableName: 't', CapacityUnits: 1, Table: {CapacityUnits: 1}}))
    const before = meter.snapshot()
    meter.observe(response('PutItem', {TableName: 't', CapacityUnits: 1, Table: {CapacityUnits: 1}}))
    meter.observe(response('UpdateItem', {TableName: 't', CapacityUnits: 2, Table: {CapacityUnits: 2}}))
    expect(before.calls).toBe(2)
    expect(meter.since(before)).toEqual({calls: 2, read: 0, write: 3})
  })
})

import {sleepMs} from './retry.js'
import type {TableDefinition} from './table-definition.js'
import type {SendOptions, Transport} from './transport.js'

const POLL_INTERVAL_MS = 100

/** Creates the table, waits until it is active, and enables expiry. Fails when it exists already. */
export async function createTable(
  transport: Transport,
  {create, ttlAttribute}: TableDefinition,
  options: SendOptions = {},
): Promise<void> {
  const {TableName} = create
  let status = (await transport.send('CreateTable', create, options)).TableDescription?.TableStatus
  while (status !== 'ACTIVE') {
    await sleepMs(POLL_INTERVAL_MS, options.signal)
    status = (await transport.send('DescribeTable', {TableName}, options)).Table?.TableStatus
  }
  const TimeToLiveSpecification = {AttributeName: ttlAttribute, Enabled: true}
  await transport.send('UpdateTimeToLive', {TableName, TimeToLiveSpecification}, options)
}

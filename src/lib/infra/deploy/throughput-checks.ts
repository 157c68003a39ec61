import {ZaelError} from '../../core/errors.js'
import {formatCount} from '../../core/text/text.js'
import {TableMissing} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import {removeMaximum} from '../stack/fixes.js'
import {type TableThroughput, throughputOf} from '../stack/table-throughput.js'
import type {ParameterChange} from './planned-change.js'

/** Checks that warm throughput is not lowered, which DynamoDB refuses in the middle of the update. */
export async function checkWarmThroughput(table: Table, given: Readonly<Record<string, string>>): Promise<void> {
  if (!given.WarmReadUnits && !given.WarmWriteUnits) return
  const {warmReads, warmWrites} = await readThroughput(table)
  checkNotLowered('--warm-throughput-reads', given.WarmReadUnits, warmReads)
  checkNotLowered('--warm-throughput-writes', given.WarmWriteUnits, warmWrites)
}

/** Warnings about maxima that were to be removed and are still there: an update without the property may leave them. */
export async function leftMaxima(table: Table, changes: readonly ParameterChange[]): Promise<string[]> {
  const isRemoved = (name: string) => changes.some(({option, after}) => option === name && after === '')
  const [reads, writes] = [isRemoved('onDemandMaxReads'), isRemoved('onDemandMaxWrites')]
  if (!reads && !writes) return []
  const {maxReads, maxWrites} = await readThroughput(table)
  const left = (units: number, kind: 'Read' | 'Write') =>
    `CloudFormation has left the maximum of ${formatCount(units)} ${kind.toLowerCase()} units a second. ` +
    `To remove it: ${removeMaximum(table.name, kind)}`
  return [
    ...(reads && maxReads !== null ? [left(maxReads, 'Read')] : []),
    ...(writes && maxWrites !== null ? [left(maxWrites, 'Write')] : []),
  ]
}

async function readThroughput({transport, name: TableName}: Table): Promise<TableThroughput> {
  try {
    return throughputOf((await transport.send('DescribeTable', {TableName})).Table)
  } catch (error) {
    if (error instanceof TableMissing) return throughputOf(undefined)
    throw error
  }
}

function checkNotLowered(flag: string, given: string | undefined, current: number | null): void {
  if (!given || current === null || Number(given) >= current) return
  throw new ZaelError(
    'conflict',
    'deploy.warm-throughput',
    `${flag} is ${formatCount(Number(given))}, but the table can already serve ${formatCount(current)} units a second, which cannot be lowered.`,
    {hint: `Nothing was changed. Omit ${flag}, or give ${current} or more.`, details: {given: Number(given), current}},
  )
}

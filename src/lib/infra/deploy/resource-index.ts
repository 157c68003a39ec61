import {TableMissing} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import {indexes} from '../../schema/attributes.js'
import {parametersOf, STACK_OPTIONS, type StackOptionValues} from '../options/options.js'

/** The projection of the table's resource index; `null`: the table has no such index, `undefined`: there is no table. */
export async function readResourceIndex({transport, name: TableName}: Table): Promise<string | null | undefined> {
  try {
    const {Table: found} = await transport.send('DescribeTable', {TableName})
    const index = found?.GlobalSecondaryIndexes?.find(({IndexName}) => IndexName === indexes.resource)
    return index?.Projection?.ProjectionType ?? null
  } catch (error) {
    if (error instanceof TableMissing) return undefined
    throw error
  }
}

/** The requested projection as DynamoDB spells it; `undefined` when none is requested. */
export function requestedResourceIndex({resourceIndex}: StackOptionValues): 'KEYS_ONLY' | 'ALL' | undefined {
  if (resourceIndex === undefined) return undefined
  return parametersOf({resourceIndex}).ResourceIndexProjection === 'ALL' ? 'ALL' : 'KEYS_ONLY'
}

/** The value of `--resource-index` for a projection of DynamoDB. */
export function resourceIndexOption(projection: string): string {
  const {spelled = {}} = STACK_OPTIONS.find(({name}) => name === 'resourceIndex') ?? {}
  return Object.entries(spelled).find(([, parameter]) => parameter === projection)?.[0] ?? projection
}

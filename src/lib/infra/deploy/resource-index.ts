import {TableMissing} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import {parametersOf, STACK_OPTIONS, type StackOptionValues} from '../options/options.js'

const INDEX = 'GSI2'

/** What the table's resource index copies; `null` when the table lacks the index, `undefined` when there is no table. */
export async function readResourceIndex({transport, name: TableName}: Table): Promise<string | null | undefined> {
  try {
    const {Table: found} = await transport.send('DescribeTable', {TableName})
    const index = found?.GlobalSecondaryIndexes?.find(({IndexName}) => IndexName === INDEX)
    return index?.Projection?.ProjectionType ?? null
  } catch (error) {
    if (error instanceof TableMissing) return undefined
    throw error
  }
}

/** What is asked for, as DynamoDB spells it; `undefined` when nothing is. */
export function requestedResourceIndex({resourceIndex}: StackOptionValues): 'KEYS_ONLY' | 'ALL' | undefined {
  if (resourceIndex === undefined) return undefined
  return parametersOf({resourceIndex}).ResourceIndexProjection === 'ALL' ? 'ALL' : 'KEYS_ONLY'
}

/** DynamoDB's word as people spell it on the command line. */
export function resourceIndexOption(projection: string): string {
  const {spelled = {}} = STACK_OPTIONS.find(({name}) => name === 'resourceIndex') ?? {}
  return Object.entries(spelled).find(([, theirs]) => theirs === projection)?.[0] ?? projection
}

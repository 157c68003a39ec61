import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {s} from '../../schema/attribute-value.js'
import type {Table} from '../table/table.js'

/** Buckets that lie together in an index. */
export interface IndexStretch {
  readonly index: 'GSI2' | 'GSI3' | 'GSI4'
  readonly partition: string
  /** What sort keys begin with. */
  readonly prefix: string
  /** Only what comes after this name, which follows the prefix. */
  readonly after?: string | undefined
}

/** Asks an index which buckets there are. Only keys are taken from it, so it does not matter what else it projects. */
export function addressQuery(
  {name: TableName}: Table,
  {index, partition, prefix, after}: IndexStretch,
): OperationInput<'Query'> {
  const e = new ExpressionBuilder().project('PK', 'SK')
  e.keyCondition(`${e.name(`${index}PK`)} = ${e.value(s(partition))}`)
  const sk = e.name(`${index}SK`)
  // "~" sorts after shard numbers and after every character of a name.
  if (after === undefined) e.keyCondition(`begins_with(${sk}, ${e.value(s(prefix))})`)
  else e.keyCondition(`${sk} BETWEEN ${e.value(s(`${prefix}${after}#~`))} AND ${e.value(s(`${prefix}~`))}`)
  return {TableName, IndexName: index, ...e.read()}
}

import type {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {bucketRefusals, type RefusalCounts} from '../../schema/refusal-counts.js'

export function countRefusals(e: ExpressionBuilder, refusals: RefusalCounts): void {
  const {added, lastAt} = bucketRefusals(refusals)
  for (const [attribute, count] of added) e.add(attribute, n(count))
  e.set(lastAt[0], n(lastAt[1]))
}

import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {holds, namedPath, type Placeholders} from './evaluate.js'
import type {Condition, Path, Update} from './expression.js'
import {parseCondition, parseProjection, parseUpdate} from './parse.js'
import {projection} from './projection.js'
import {conditionFailed, invalid} from './service-error.js'
import {copyItem} from './values.js'

/** The fields that carry expressions, in any operation. */
export interface ExpressionFields {
  readonly ConditionExpression?: string | undefined
  readonly UpdateExpression?: string | undefined
  readonly KeyConditionExpression?: string | undefined
  readonly FilterExpression?: string | undefined
  readonly ProjectionExpression?: string | undefined
  readonly ExpressionAttributeNames?: Record<string, string> | undefined
  readonly ExpressionAttributeValues?: Item | undefined
}

/** The parsed expressions of one request, with their placeholders resolved. */
export interface Expressions {
  readonly condition: Condition | undefined
  readonly update: Update | undefined
  readonly keyCondition: Condition | undefined
  readonly filter: Condition | undefined
  readonly projection: readonly Path[] | undefined
  readonly placeholders: Placeholders
}

/** DynamoDB's own bounds of one expression. */
const MOST_BYTES = 4096
const MOST_OPERATORS = 300

const OPERATOR = /<>|<=|>=|[=<>+,]|\b(?:AND|OR|NOT|BETWEEN|IN|attribute_\w+|begins_with|contains|size|if_not_exists)\b/g

/** Parses the expressions of a request; rejects undefined and unused placeholders. */
export function readExpressions(fields: ExpressionFields): Expressions {
  const names = fields.ExpressionAttributeNames
  const values = fields.ExpressionAttributeValues
  if (names && Object.keys(names).length === 0) throw invalid('ExpressionAttributeNames must not be empty')
  if (values && Object.keys(values).length === 0) throw invalid('ExpressionAttributeValues must not be empty')
  const read = <T>(text: string | undefined, parse: (text: string) => T) => {
    if (text === undefined) return undefined
    checkSize(text)
    return parse(text)
  }
  const condition = read(fields.ConditionExpression, parseCondition)
  const update = read(fields.UpdateExpression, parseUpdate)
  const keyCondition = read(fields.KeyConditionExpression, parseCondition)
  const filter = read(fields.FilterExpression, parseCondition)
  const projection = read(fields.ProjectionExpression, parseProjection)
  const all = [condition, update, keyCondition, filter, projection]
  checkPlaceholders('ExpressionAttributeNames', names, '#', all)
  checkPlaceholders('ExpressionAttributeValues', values, ':', all)
  return {
    condition: condition?.root,
    update: update?.root,
    keyCondition: keyCondition?.root,
    filter: filter?.root,
    projection: projection?.root,
    placeholders: {names: names ?? {}, values: values ?? {}},
  }
}

function checkSize(text: string): void {
  if (text.length <= MOST_OPERATORS) return
  if (Buffer.byteLength(text) > MOST_BYTES) throw invalid('Expression size has exceeded the maximum allowed size')
  const operators = text.match(OPERATOR)?.length ?? 0
  if (operators > MOST_OPERATORS) throw invalid(`The expression contains too many operators: ${operators}`)
}

function checkPlaceholders(
  field: string,
  given: object | undefined,
  sign: string,
  all: readonly ({readonly placeholders: ReadonlySet<string>} | undefined)[],
): void {
  for (const parsed of all) {
    for (const placeholder of parsed?.placeholders ?? []) {
      if (placeholder.startsWith(sign) && !(given && placeholder in given)) {
        throw invalid(`An expression attribute is used in an expression and is not defined: ${placeholder}`)
      }
    }
  }
  const unused = Object.keys(given ?? {}).filter(name => !all.some(parsed => parsed?.placeholders.has(name)))
  if (unused.length > 0) throw invalid(`Value provided in ${field} unused in expressions: keys: {${unused.join(', ')}}`)
}

/** Throws if the stored item does not meet the condition. */
export function checkCondition(
  {condition, placeholders}: Expressions,
  stored: Item | undefined,
  returned: string | undefined,
): void {
  if (!condition || holds(condition, stored ?? {}, placeholders)) return
  throw conditionFailed(returned === 'ALL_OLD' && stored ? copyItem(stored) : undefined)
}

export function projected(item: Item, {projection: paths, placeholders}: Expressions): Item {
  return paths
    ? projection(
        item,
        paths.map(path => namedPath(path, placeholders)),
      )
    : copyItem(item)
}

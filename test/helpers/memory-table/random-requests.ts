import fc from 'fast-check'
import type {Operation} from '../../../src/lib/dynamo/transport.js'
import type {AttributeValue, Item} from '../../../src/lib/schema/attribute-value.js'

/** One request to a table with few keys, so that requests collide. */
export interface RandomRequest {
  readonly operation: Operation
  readonly input: (table: string) => object
}

const partition = fc.constantFrom('a', 'b', 'é')
const sort = fc.constantFrom('1', '10', '2', 'x#1', 'x#2')
const key = fc.record({PK: partition.map(S => ({S})), SK: sort.map(S => ({S}))}) as fc.Arbitrary<Item>

const number: fc.Arbitrary<AttributeValue> = fc.oneof(
  fc.integer({min: -3000, max: 3000}).map(N => ({N: String(N)})),
  fc.constantFrom('0.5', '1e3', '-0.25', '12345678901234567890', '99999999999999999999.5').map(N => ({N})),
)
const text: fc.Arbitrary<AttributeValue> = fc.constantFrom('', 'a', 'ab', 'b', 'é', 'x'.repeat(700)).map(S => ({S}))
const set: fc.Arbitrary<AttributeValue> = fc
  .uniqueArray(fc.constantFrom('p', 'q', 'r'), {minLength: 1})
  .map(SS => ({SS}))
const map: fc.Arbitrary<AttributeValue> = fc.record({x: number, y: text}).map(M => ({M}))
const list: fc.Arbitrary<AttributeValue> = fc.array(number, {minLength: 1, maxLength: 3}).map(L => ({L}))
const flag: fc.Arbitrary<AttributeValue> = fc.constantFrom({BOOL: true}, {BOOL: false}, {NULL: true as const})
const anyValue = fc.oneof({arbitrary: number, weight: 4}, {arbitrary: text, weight: 2}, set, map, list, flag)

/** Usual attributes with their usual types, and sometimes another. */
const attribute = fc.oneof(
  {arbitrary: fc.tuple(fc.constantFrom('n1', 'n2', 'n3'), number), weight: 6},
  {arbitrary: fc.tuple(fc.constant('s1'), text), weight: 2},
  fc.tuple(fc.constant('set'), set),
  fc.tuple(fc.constant('map'), map),
  fc.tuple(fc.constant('list'), list),
  fc.tuple(fc.constantFrom('n1', 's1', 'set'), anyValue),
  fc.tuple(
    fc.constantFrom('GSI1PK', 'GSI2PK', 'GSI1SK', 'GSI2SK'),
    fc.constantFrom('g', 'h').map(S => ({S})),
  ),
)

const item = fc
  .tuple(key, fc.array(attribute, {maxLength: 6}))
  .map(([own, attributes]): Item => ({...Object.fromEntries(attributes), ...own}))

/** Pieces of an expression, with their own placeholders. */
interface Piece {
  readonly text: string
  readonly names: Record<string, string>
  readonly values: Item
}

let pieces = 0

function piece(
  attributeName: string,
  values: readonly AttributeValue[],
  write: (n: string, v: string[]) => string,
): Piece {
  const id = ++pieces % 100_000
  const placeholders = values.map((_, at) => `:v${id}_${at}`)
  return {
    text: write(`#n${id}`, placeholders),
    names: {[`#n${id}`]: attributeName},
    values: Object.fromEntries(values.map((value, at) => [placeholders[at], value])),
  }
}

const anyName = fc.constantFrom('PK', 'SK', 'n1', 'n2', 's1', 'set', 'map', 'list', 'missing', 'GSI1PK')

const simpleCondition: fc.Arbitrary<Piece> = fc.oneof(
  fc
    .tuple(fc.constantFrom('attribute_exists', 'attribute_not_exists'), anyName)
    .map(([name, attr]) => piece(attr, [], n => `${name}(${n})`)),
  fc
    .tuple(fc.constantFrom('=', '<>', '<', '<=', '>', '>='), attribute)
    .map(([operator, [attr, value]]) => piece(attr, [value], (n, [v]) => `${n} ${operator} ${v}`)),
  fc
    .tuple(fc.constantFrom('n1', 'n2'), fc.integer({min: -3000, max: 0}), fc.integer({min: 0, max: 3000}))
    .map(([attr, low, high]) =>
      piece(attr, [{N: `${low}`}, {N: `${high}`}], (n, [a, b]) => `${n} BETWEEN ${a} AND ${b}`),
    ),
  fc.tuple(attribute, number).map(([[attr, value], other]) => {
    return piece(attr, [value, other], (n, [a, b]) => `${n} IN (${a}, ${b})`)
  }),
  fc
    .tuple(fc.constantFrom('SK', 's1', 'missing'), fc.constantFrom('x', 'a'))
    .map(([attr, S]) => piece(attr, [{S}], (n, [v]) => `begins_with(${n}, ${v})`)),
  fc
    .tuple(fc.constantFrom('s1', 'set', 'list'), fc.constantFrom<AttributeValue>({S: 'a'}, {S: 'p'}, {N: '1'}))
    .map(([attr, value]) => piece(attr, [value], (n, [v]) => `contains(${n}, ${v})`)),
  fc
    .tuple(fc.constantFrom('n1', 's1', 'map'), fc.constantFrom('N', 'S', 'M'))
    .map(([attr, S]) => piece(attr, [{S}], (n, [v]) => `attribute_type(${n}, ${v})`)),
  fc.constantFrom('s1', 'set', 'list').map(attr => piece(attr, [{N: '1'}], (n, [v]) => `size(${n}) > ${v}`)),
  number.map(value => piece('map', [value], (n, [v]) => `${n}.x <= ${v}`)),
)

const condition: fc.Arbitrary<Piece> = fc.oneof(
  {arbitrary: simpleCondition, weight: 3},
  fc.tuple(simpleCondition, simpleCondition, fc.constantFrom('AND', 'OR', 'and')).map(([a, b, word]) => {
    return joined([a, b], `${a.text} ${word} ${b.text}`)
  }),
  fc
    .tuple(simpleCondition, simpleCondition, simpleCondition)
    .map(([a, b, c]) => joined([a, b, c], `NOT (${a.text} OR ${b.text}) OR (${c.text})`)),
)

function joined(all: readonly Piece[], text: string): Piece {
  return {
    text,
    names: Object.assign({}, ...all.map(({names}) => names)),
    values: Object.assign({}, ...all.map(({values}) => values)),
  }
}

const setPiece: fc.Arbitrary<Piece> = fc.oneof(
  {arbitrary: attribute.map(([attr, value]) => piece(attr, [value], (n, [v]) => `${n} = ${v}`)), weight: 4},
  attribute.map(([attr, value]) => piece(attr, [value], (n, [v]) => `${n} = if_not_exists(${n}, ${v})`)),
  fc
    .tuple(fc.constantFrom('n1', 'n2', 's1'), number, fc.constantFrom('+', '-'))
    .map(([attr, value, sign]) => piece(attr, [value], (n, [v]) => `${n} = ${n} ${sign} ${v}`)),
  number.map(value => piece('n3', [value, {N: '7'}], (n, [v, w]) => `${n} = if_not_exists(${n}, ${w}) + ${v}`)),
  list.map(value => piece('list', [value], (n, [v]) => `${n} = list_append(${n}, ${v})`)),
  number.map(value => piece('map', [value], (n, [v]) => `${n}.x = ${v}`)),
)
const removePiece = anyName.filter(name => !['PK', 'SK'].includes(name)).map(attr => piece(attr, [], n => n))
const addPiece = fc.oneof(
  {
    arbitrary: fc.tuple(fc.constantFrom('n1', 'n2', 'n3', 's1', 'set'), number).map(([attr, value]) => {
      return piece(attr, [value], (n, [v]) => `${n} ${v}`)
    }),
    weight: 3,
  },
  set.map(value => piece('set', [value], (n, [v]) => `${n} ${v}`)),
)
const deletePiece = set.map(value => piece('set', [value], (n, [v]) => `${n} ${v}`))

/** Keeps the first of several that name the same attribute: duplicates are rejected, which has its own test. */
function onceEach(clauses: readonly (readonly Piece[])[]): Piece[][] {
  const seen = new Set<string>()
  return clauses.map(clause =>
    clause.filter(({names}) => {
      const [name = ''] = Object.values(names)
      return !seen.has(name) && seen.add(name)
    }),
  )
}

const update = fc
  .tuple(
    fc.array(setPiece, {maxLength: 3}),
    fc.array(removePiece, {maxLength: 2}),
    fc.array(addPiece, {maxLength: 2}),
    fc.array(deletePiece, {maxLength: 1}),
  )
  .map(onceEach)
  .filter(clauses => clauses.some(clause => clause.length > 0))
  .map(clauses => {
    const texts = clauses.map((clause, at) => {
      return clause.length > 0
        ? `${['SET', 'REMOVE', 'ADD', 'DELETE'][at]} ${clause.map(({text}) => text).join(', ')}`
        : ''
    })
    return joined(clauses.flat(), texts.filter(Boolean).join(' '))
  })

/** Named expressions as the fields of a request. */
function fields(expressions: Readonly<Record<string, Piece | undefined>>): object {
  const given = Object.entries(expressions).filter(([, each]) => each !== undefined) as [string, Piece][]
  const {names, values} = joined(
    given.map(([, each]) => each),
    '',
  )
  return {
    ...Object.fromEntries(given.map(([field, {text}]) => [field, text])),
    ...(Object.keys(names).length > 0 && {ExpressionAttributeNames: names}),
    ...(Object.keys(values).length > 0 && {ExpressionAttributeValues: values}),
  }
}

const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, {nil: undefined, freq: 2})
const onFailure = fc.constantFrom('ALL_OLD', 'NONE')

const put = fc.record({Item: item, check: maybe(condition), returned: fc.constantFrom('NONE', 'ALL_OLD'), onFailure})
const putFields = ({Item, check, onFailure: failed}: {Item: Item; check: Piece | undefined; onFailure: string}) => ({
  Item,
  ...fields({ConditionExpression: check}),
  ...(check && {ReturnValuesOnConditionCheckFailure: failed}),
})
const change = fc.record({Key: key, how: update, check: maybe(condition), onFailure})
const changeFields = ({
  Key,
  how,
  check,
  onFailure: failed,
}: {
  Key: Item
  how: Piece
  check: Piece | undefined
  onFailure: string
}) => ({
  Key,
  ...fields({UpdateExpression: how, ConditionExpression: check}),
  ...(check && {ReturnValuesOnConditionCheckFailure: failed}),
})
const removal = fc.record({Key: key, check: maybe(condition), onFailure})
const removalFields = ({Key, check, onFailure: failed}: {Key: Item; check: Piece | undefined; onFailure: string}) => ({
  Key,
  ...fields({ConditionExpression: check}),
  ...(check && {ReturnValuesOnConditionCheckFailure: failed}),
})

const keyCondition = fc
  .tuple(
    fc.constantFrom(undefined, 'GSI1', 'GSI2'),
    fc.constantFrom('none', '=', '<', '<=', '>', '>=', 'between', 'begins_with'),
    sort,
    sort,
    partition,
    fc.constantFrom('g', 'h'),
  )
  .map(([index, kind, a, b, pk, gsi]) => {
    const hash = piece(index ? `${index}PK` : 'PK', [{S: index ? gsi : pk}], (n, [v]) => `${n} = ${v}`)
    const [low, high] = [a, b].sort() as [string, string]
    const value = index ? gsi : a
    const name = index ? `${index}SK` : 'SK'
    if (kind === 'none') return {index, how: hash}
    const range =
      kind === 'between'
        ? piece(name, [{S: index ? 'a' : low}, {S: index ? 'z' : high}], (n, [x, y]) => `${n} BETWEEN ${x} AND ${y}`)
        : kind === 'begins_with'
          ? piece(name, [{S: value.slice(0, 1)}], (n, [v]) => `begins_with(${n}, ${v})`)
          : piece(name, [{S: value}], (n, [v]) => `${n} ${kind} ${v}`)
    return {index, how: joined([hash, range], `${hash.text} AND ${range.text}`)}
  })

const projection = fc.uniqueArray(fc.constantFrom('SK', 'n1', 's1', 'map', 'missing'), {minLength: 1}).map(names => {
  const all = names.map(name => piece(name, [], n => n))
  return joined(all, all.map(({text: each}) => each).join(', '))
})

/** Without conditions on keys, which a filter may not have. */
const filter = condition.filter(({names}) => !Object.values(names).some(name => /PK$|SK$/.test(name)))

export const randomRequest: fc.Arbitrary<RandomRequest> = fc.oneof(
  {
    weight: 5,
    arbitrary: put.map(each => ({
      operation: 'PutItem' as const,
      input: (TableName: string) => ({TableName, ReturnValues: each.returned, ...putFields(each)}),
    })),
  },
  {
    weight: 8,
    arbitrary: fc
      .tuple(change, fc.constantFrom('NONE', 'ALL_NEW', 'UPDATED_NEW', 'UPDATED_OLD'))
      .map(([each, ReturnValues]) => ({
        operation: 'UpdateItem' as const,
        input: (TableName: string) => ({TableName, ReturnValues, ...changeFields(each)}),
      })),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(removal, fc.constantFrom('NONE', 'ALL_OLD')).map(([each, ReturnValues]) => ({
      operation: 'DeleteItem' as const,
      input: (TableName: string) => ({TableName, ReturnValues, ...removalFields(each)}),
    })),
  },
  fc.tuple(key, fc.boolean(), maybe(projection)).map(([Key, ConsistentRead, parts]) => ({
    operation: 'GetItem' as const,
    input: (TableName: string) => ({TableName, Key, ConsistentRead, ...fields({ProjectionExpression: parts})}),
  })),
  {
    weight: 4,
    arbitrary: fc
      .tuple(keyCondition, maybe(filter), maybe(fc.integer({min: 1, max: 3})), fc.boolean())
      .map(([{index, how}, chosen, Limit, ScanIndexForward]) => ({
        operation: 'Query' as const,
        input: (TableName: string) => ({
          TableName,
          ScanIndexForward,
          ...(index && {IndexName: index}),
          ...(Limit && {Limit}),
          ...fields({KeyConditionExpression: how, FilterExpression: chosen}),
        }),
      })),
  },
  fc.tuple(maybe(condition), maybe(fc.integer({min: 1, max: 4}))).map(([chosen, Limit]) => ({
    operation: 'Scan' as const,
    input: (TableName: string) => ({TableName, ...(Limit && {Limit}), ...fields({FilterExpression: chosen})}),
  })),
  fc.array(key, {minLength: 1, maxLength: 4}).map(Keys => ({
    operation: 'BatchGetItem' as const,
    input: (table: string) => ({RequestItems: {[table]: {Keys, ConsistentRead: true}}}),
  })),
  fc
    .array(
      fc.oneof(
        item.map(Item => ({PutRequest: {Item}})),
        key.map(Key => ({DeleteRequest: {Key}})),
      ),
      {minLength: 1, maxLength: 4},
    )
    .map(requests => ({
      operation: 'BatchWriteItem' as const,
      input: (table: string) => ({RequestItems: {[table]: requests}}),
    })),
  {
    weight: 4,
    arbitrary: fc
      .array(
        fc.oneof(
          put.map(each => ({Put: putFields(each)})),
          change.map(each => ({Update: changeFields(each)})),
          removal.map(each => ({Delete: removalFields(each)})),
          fc
            .tuple(key, condition)
            .map(([Key, check]) => ({ConditionCheck: {Key, ...fields({ConditionExpression: check})}})),
        ),
        {minLength: 1, maxLength: 3},
      )
      .map(items => ({
        operation: 'TransactWriteItems' as const,
        input: (TableName: string) => ({
          TransactItems: items.map(each =>
            Object.fromEntries(Object.entries(each).map(([kind, request]) => [kind, {TableName, ...request}])),
          ),
        }),
      })),
  },
)

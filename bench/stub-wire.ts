import {classifyError} from '../src/lib/dynamo/classify.js'
import type {OperationInput, Transport} from '../src/lib/dynamo/transport.js'
import type {AttributeValue, Item} from '../src/lib/schema/attribute-value.js'

type Update = OperationInput<'UpdateItem'>

/** One part of an update, by the placeholders of the attribute and of the value. */
interface Part {
  readonly name: string
  readonly value: string
  readonly isAdded: boolean
}

export interface StubWire extends Transport {
  readonly items: Map<string, Item>
  calls: number
}

/**
 * Answers writes to a bucket in use without a network. Refuses a write if the bucket does not exist or a balance is too low;
 * all other conditions count as met.
 */
export function stubWire(roundTripMs = 0, items = new Map<string, Item>()): StubWire {
  const wait = roundTripMs > 0 ? () => new Promise(resolve => setTimeout(resolve, roundTripMs)) : () => undefined
  const wire = {
    items,
    calls: 0,
    send: async (operation: string, input: unknown) => {
      wire.calls++
      await wait()
      if (operation === 'UpdateItem') return {Attributes: applyUpdate(items, input as Update)}
      if (operation === 'GetItem') return {Item: items.get(idOf((input as Update).Key as Item))}
      if (operation === 'BatchGetItem') return {Responses: {}}
      throw new Error(`${operation} is not stubbed`)
    },
  }
  return wire as StubWire
}

export const idOf = (key: Item): string => `${text(key.PK)} ${text(key.SK)}`

function applyUpdate(items: Map<string, Item>, update: Update): Item {
  const {
    Key,
    UpdateExpression = '',
    ExpressionAttributeNames: names = {},
    ExpressionAttributeValues: values = {},
  } = update
  const id = idOf(Key as Item)
  const before = items.get(id)
  const isCreation = Object.values(names).includes('GSI2PK')
  if (!before && !isCreation) throw refused(undefined)
  const after: Item = before ? {...before} : {...(Key as Item)}
  for (const {name, value, isAdded} of partsOf(UpdateExpression)) {
    const attribute = names[name] as string
    const given = values[value] as AttributeValue
    if (!isAdded) after[attribute] = given
    else {
      const sum = BigInt(text(after[attribute]) || 0) + BigInt(text(given))
      if (sum < 0n && attribute.endsWith('_tk')) throw refused(before)
      after[attribute] = {N: String(sum)}
    }
  }
  items.set(id, after)
  return after
}

const refused = (Item: Item | undefined) => classifyError({name: 'ConditionalCheckFailedException', Item}, 'UpdateItem')

const parsed = new Map<string, Part[]>()

/** Cached: all writes of a kind have the same expression. */
function partsOf(expression: string): Part[] {
  let parts = parsed.get(expression)
  if (!parts) {
    parts = []
    for (const clause of expression.split(/ (?=ADD |REMOVE )/)) {
      const isAdded = clause.startsWith('ADD ')
      if (clause.startsWith('REMOVE ')) continue
      for (const part of clause.slice(4).split(/, */)) {
        const [name = '', value = ''] = part.split(isAdded ? ' ' : / *= */)
        if (value.startsWith(':')) parts.push({name, value, isAdded})
      }
    }
    parsed.set(expression, parts)
  }
  return parts
}

function text(value: AttributeValue | undefined): string {
  return value === undefined ? '' : 'S' in value ? value.S : 'N' in value ? value.N : ''
}

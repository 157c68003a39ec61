import {type AttributeValue, type Item, n, s} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'

interface Placeholders {
  ExpressionAttributeNames: Record<string, string> | undefined
  ExpressionAttributeValues: Item | undefined
}

interface WriteFields extends Placeholders {
  ConditionExpression: string | undefined
}

interface UpdateFields extends WriteFields {
  UpdateExpression: string | undefined
}

interface ReadFields extends Placeholders {
  KeyConditionExpression: string | undefined
  FilterExpression: string | undefined
  ProjectionExpression: string | undefined
}

/** Uses numbered placeholders only, so every top-level attribute name is safe: dashes, dots, reserved words (D-17). */
export class ExpressionBuilder {
  readonly #names = new Map<string, string>()
  readonly #values = new Map<string, string>()
  readonly #namesSent: Record<string, string> = {}
  readonly #valuesSent: Item = {}
  /** Strings, which are faster than lists: every write has them. */
  #set = ''
  #add = ''
  #remove = ''
  #delete = ''
  readonly #conditions: string[] = []
  readonly #keyConditions: string[] = []
  readonly #filters: string[] = []
  readonly #projection: string[] = []

  name(attribute: string): string {
    let placeholder = this.#names.get(attribute)
    if (placeholder === undefined) {
      placeholder = placeholderOf(NAMES, '#', this.#names.size)
      this.#names.set(attribute, placeholder)
      this.#namesSent[placeholder] = attribute
    }
    return placeholder
  }

  value(value: AttributeValue): string {
    const identity = identityOf(value)
    let placeholder = this.#values.get(identity)
    if (placeholder === undefined) {
      placeholder = placeholderOf(VALUES, ':', this.#values.size)
      this.#values.set(identity, placeholder)
      this.#valuesSent[placeholder] = value
    }
    return placeholder
  }

  set(attribute: string, value: AttributeValue): this {
    this.#set = appended(this.#set, `${this.name(attribute)}=${this.value(value)}`)
    return this
  }

  setIfMissing(attribute: string, value: AttributeValue): this {
    const name = this.name(attribute)
    this.#set = appended(this.#set, `${name}=if_not_exists(${name},${this.value(value)})`)
    return this
  }

  copy(to: string, from: string): this {
    this.#set = appended(this.#set, `${this.name(to)}=${this.name(from)}`)
    return this
  }

  /** A missing number counts as zero. Also adds to sets. */
  add(attribute: string, value: AttributeValue): this {
    this.#add = appended(this.#add, `${this.name(attribute)} ${this.value(value)}`)
    return this
  }

  /** The item must have the map; a missing number counts as zero. */
  addWithin(map: string, entry: string, value: AttributeValue): this {
    const path = `${this.name(map)}.${this.name(entry)}`
    const sum = `if_not_exists(${path},${this.value({N: '0'})})+${this.value(value)}`
    this.#set = appended(this.#set, `${path}=${sum}`)
    return this
  }

  setWithin(map: string, entry: string, value: AttributeValue): this {
    this.#set = appended(this.#set, `${this.name(map)}.${this.name(entry)}=${this.value(value)}`)
    return this
  }

  remove(attribute: string): this {
    this.#remove = appended(this.#remove, this.name(attribute))
    return this
  }

  store(attribute: string, value: AttributeValue | undefined): this {
    return value === undefined ? this.remove(attribute) : this.set(attribute, value)
  }

  delete(attribute: string, elements: AttributeValue): this {
    this.#delete = appended(this.#delete, `${this.name(attribute)} ${this.value(elements)}`)
    return this
  }

  condition(expression: string): this {
    this.#conditions.push(expression)
    return this
  }

  /** The attribute has this value; `undefined`: the item does not have it. */
  require(attribute: string, value: AttributeValue | string | number | bigint | undefined): this {
    if (value === undefined) return this.absent(attribute)
    const wanted = typeof value === 'object' ? value : typeof value === 'string' ? s(value) : n(value)
    return this.condition(`${this.name(attribute)}=${this.value(wanted)}`)
  }

  /** The item exists, or has the given attribute. */
  exists(attribute: string = attributes.key.partition): this {
    return this.condition(`attribute_exists(${this.name(attribute)})`)
  }

  /** The item does not exist, or lacks the given attribute. */
  absent(attribute: string = attributes.key.partition): this {
    return this.condition(`attribute_not_exists(${this.name(attribute)})`)
  }

  keyCondition(expression: string): this {
    this.#keyConditions.push(expression)
    return this
  }

  filter(expression: string): this {
    this.#filters.push(expression)
    return this
  }

  project(...attributes: string[]): this {
    for (const attribute of attributes) {
      const name = this.name(attribute)
      if (!this.#projection.includes(name)) this.#projection.push(name)
    }
    return this
  }

  update(): UpdateFields {
    let clauses = this.#set && `SET ${this.#set}`
    if (this.#add) clauses = appended(clauses, `ADD ${this.#add}`, ' ')
    if (this.#remove) clauses = appended(clauses, `REMOVE ${this.#remove}`, ' ')
    if (this.#delete) clauses = appended(clauses, `DELETE ${this.#delete}`, ' ')
    return {
      UpdateExpression: clauses || undefined,
      ConditionExpression: allOf(this.#conditions),
      ...this.#placeholders(),
    }
  }

  write(): WriteFields {
    return {ConditionExpression: allOf(this.#conditions), ...this.#placeholders()}
  }

  read(): ReadFields {
    return {
      KeyConditionExpression: joined(this.#keyConditions, ' AND '),
      FilterExpression: allOf(this.#filters),
      ProjectionExpression: joined(this.#projection, ', '),
      ...this.#placeholders(),
    }
  }

  // Undefined if empty: DynamoDB refuses an empty map.
  #placeholders(): Placeholders {
    return {
      ExpressionAttributeNames: this.#names.size > 0 ? this.#namesSent : undefined,
      ExpressionAttributeValues: this.#values.size > 0 ? this.#valuesSent : undefined,
    }
  }
}

const NAMES: string[] = []
const VALUES: string[] = []

function placeholderOf(made: string[], sign: '#' | ':', index: number): string {
  for (let next = made.length; next <= index; next++) made.push(`${sign}${next}`)
  return made[index] as string
}

/** Unique: numbers begin with a digit or a sign, texts with a quotation mark, everything else with a brace. */
function identityOf(value: AttributeValue): string {
  if ('N' in value) return value.N
  return 'S' in value ? `"${value.S}` : JSON.stringify(value)
}

const appended = (text: string, part: string, separator = ','): string =>
  text === '' ? part : `${text}${separator}${part}`

/** Brackets only around alternatives: short expressions are cheaper to send and parse. */
function allOf(expressions: string[]): string | undefined {
  if (expressions.length <= 1) return expressions[0]
  return expressions.map(text => (text.includes(' OR ') ? `(${text})` : text)).join(' AND ')
}

function joined(parts: string[], separator: string): string | undefined {
  return parts.length === 0 ? undefined : parts.join(separator)
}

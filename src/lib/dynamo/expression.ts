import type {AttributeValue, Item} from '../schema/attribute-value.js'

interface Placeholders {
  ExpressionAttributeNames: Record<string, string> | undefined
  ExpressionAttributeValues: Item | undefined
}

/** For PutItem, DeleteItem and ConditionCheck; what is undefined is not sent. */
interface WriteFields extends Placeholders {
  ConditionExpression: string | undefined
}

/** For UpdateItem. */
interface UpdateFields extends WriteFields {
  UpdateExpression: string | undefined
}

/** For Query, Scan and GetItem. */
interface ReadFields extends Placeholders {
  KeyConditionExpression: string | undefined
  FilterExpression: string | undefined
  ProjectionExpression: string | undefined
}

/**
 * Collects the expressions of one request. Attribute names and values never appear in the text, only numbered
 * placeholders, so every name is safe: dashes, dots, reserved words (D-17). Names are top-level attributes.
 */
export class ExpressionBuilder {
  readonly #names = new Map<string, string>()
  readonly #values = new Map<string, {placeholder: string; value: AttributeValue}>()
  readonly #set: string[] = []
  readonly #add: string[] = []
  readonly #remove: string[] = []
  readonly #delete: string[] = []
  readonly #conditions: string[] = []
  readonly #keyConditions: string[] = []
  readonly #filters: string[] = []
  readonly #projection: string[] = []

  /** The placeholder for an attribute name; the same name always gets the same one. */
  name(attribute: string): string {
    let placeholder = this.#names.get(attribute)
    if (placeholder === undefined) {
      placeholder = `#${this.#names.size}`
      this.#names.set(attribute, placeholder)
    }
    return placeholder
  }

  /** The placeholder for a value; equal values share one. */
  value(value: AttributeValue): string {
    const identity = 'N' in value ? `N${value.N}` : 'S' in value ? `S${value.S}` : JSON.stringify(value)
    let known = this.#values.get(identity)
    if (known === undefined) {
      known = {placeholder: `:${this.#values.size}`, value}
      this.#values.set(identity, known)
    }
    return known.placeholder
  }

  set(attribute: string, value: AttributeValue): this {
    this.#set.push(`${this.name(attribute)}=${this.value(value)}`)
    return this
  }

  /** Sets the attribute only where the item does not have it yet. */
  setIfMissing(attribute: string, value: AttributeValue): this {
    const name = this.name(attribute)
    this.#set.push(`${name}=if_not_exists(${name},${this.value(value)})`)
    return this
  }

  /** Gives one attribute the value of another. */
  copy(to: string, from: string): this {
    this.#set.push(`${this.name(to)}=${this.name(from)}`)
    return this
  }

  /** Adds to a number (a missing one counts as zero) or to a set. */
  add(attribute: string, value: AttributeValue): this {
    this.#add.push(`${this.name(attribute)} ${this.value(value)}`)
    return this
  }

  /** Adds to a number within a map, which the item must have; a missing number counts as zero. */
  addWithin(map: string, entry: string, value: AttributeValue): this {
    const path = `${this.name(map)}.${this.name(entry)}`
    this.#set.push(`${path}=if_not_exists(${path},${this.value({N: '0'})})+${this.value(value)}`)
    return this
  }

  /** Sets an entry of a map, which the item must have. */
  setWithin(map: string, entry: string, value: AttributeValue): this {
    this.#set.push(`${this.name(map)}.${this.name(entry)}=${this.value(value)}`)
    return this
  }

  remove(attribute: string): this {
    this.#remove.push(this.name(attribute))
    return this
  }

  /** Removes elements from a set. */
  delete(attribute: string, elements: AttributeValue): this {
    this.#delete.push(`${this.name(attribute)} ${this.value(elements)}`)
    return this
  }

  /** All conditions given must hold. */
  condition(expression: string): this {
    this.#conditions.push(expression)
    return this
  }

  /** All key conditions given must hold. */
  keyCondition(expression: string): this {
    this.#keyConditions.push(expression)
    return this
  }

  /** All filters given must hold. */
  filter(expression: string): this {
    this.#filters.push(expression)
    return this
  }

  /** Reads these attributes only. */
  project(...attributes: string[]): this {
    for (const attribute of attributes) {
      const name = this.name(attribute)
      if (!this.#projection.includes(name)) this.#projection.push(name)
    }
    return this
  }

  /** The fields of an UpdateItem, alone or in a transaction. */
  update(): UpdateFields {
    const clauses = [
      ...clause('SET', this.#set),
      ...clause('ADD', this.#add),
      ...clause('REMOVE', this.#remove),
      ...clause('DELETE', this.#delete),
    ]
    return {UpdateExpression: joined(clauses, ' '), ...this.write()}
  }

  /** The fields of a PutItem, DeleteItem or ConditionCheck. */
  write(): WriteFields {
    return {ConditionExpression: allOf(this.#conditions), ...this.#placeholders()}
  }

  /** The fields of a Query, Scan or GetItem. */
  read(): ReadFields {
    return {
      KeyConditionExpression: joined(this.#keyConditions, ' AND '),
      FilterExpression: allOf(this.#filters),
      ProjectionExpression: joined(this.#projection, ', '),
      ...this.#placeholders(),
    }
  }

  // Undefined, which is not sent, because DynamoDB refuses an empty map.
  #placeholders(): Placeholders {
    const names: Record<string, string> = {}
    for (const [attribute, placeholder] of this.#names) names[placeholder] = attribute
    const values: Item = {}
    for (const {placeholder, value} of this.#values.values()) values[placeholder] = value
    return {
      ExpressionAttributeNames: this.#names.size > 0 ? names : undefined,
      ExpressionAttributeValues: this.#values.size > 0 ? values : undefined,
    }
  }
}

function clause(keyword: string, parts: string[]): string[] {
  return parts.length === 0 ? [] : [`${keyword} ${parts.join(',')}`]
}

/** Only an alternative needs brackets beside others; hot expressions are kept short, since they are sent and parsed each time. */
function allOf(expressions: string[]): string | undefined {
  if (expressions.length <= 1) return expressions[0]
  return expressions.map(text => (text.includes(' OR ') ? `(${text})` : text)).join(' AND ')
}

function joined(parts: string[], separator: string): string | undefined {
  return parts.length === 0 ? undefined : parts.join(separator)
}
